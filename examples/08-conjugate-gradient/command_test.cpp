// SPDX-License-Identifier: Apache-2.0

// Runs the example like users do, and checks its exit code and output. The program is in this
// test's folder.
#include <sys/wait.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <sstream>
#include <string>

namespace {

namespace fs = std::filesystem;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

struct outcome {
  int code;
  std::string out;
  std::string err;
};

class conjugate_gradient : public testing::Test {
 protected:
  void SetUp() override { fs::create_directory(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  [[nodiscard]] fs::path write(const std::string& name, const std::string& text) const {
    const fs::path path = folder_ / name;
    std::ofstream{path} << text;
    return path;
  }

  [[nodiscard]] outcome run(const std::string& arguments) const {
    const fs::path program =
        fs::read_symlink("/proc/self/exe").parent_path() / "example-08-conjugate-gradient";
    const fs::path out = folder_ / "out";
    const fs::path err = folder_ / "err";
    std::ostringstream command;
    command << program << ' ' << arguments << " >" << out << " 2>" << err << " </dev/null";
    const int status = std::system(command.str().c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read(out), read(err)};
  }

  /// Expects exit code 2, no standard output, and this one line on standard error.
  void expect_refused(const std::string& arguments, const std::string& line) const {
    const outcome got = run(arguments);
    EXPECT_EQ(got.code, 2) << arguments;
    EXPECT_THAT(got.out, IsEmpty());
    EXPECT_EQ(got.err, "conjugate-gradient: " + line + "\n");
  }

  void expect_bad_file(const std::string& text, const std::string& complaint) const {
    const fs::path path = write("bad.mtx", text);
    expect_refused("--matrix '" + path.string() + "'", path.string() + complaint);
  }

  fs::path folder_ = fs::path{testing::TempDir()} /
                     ("conjugate_gradient_" + std::to_string(std::random_device{}()));

 private:
  static std::string read(const fs::path& path) {
    std::ifstream in{path};
    return {std::istreambuf_iterator<char>{in}, {}};
  }
};

const fs::path power_network = fs::path{FARCALL_EXAMPLES} / "data" / "1138_bus.mtx";

const std::string header = "%%MatrixMarket matrix coordinate real symmetric\n";

TEST_F(conjugate_gradient, solves_the_power_network) {
  const outcome got = run("--targets shm:2 --json --matrix '" + power_network.string() + "'");
  EXPECT_EQ(got.code, 0) << got.err;
  EXPECT_THAT(got.out, HasSubstr("\"rows\":1138,\"nonzeros\":4054,"));
  EXPECT_THAT(got.out, HasSubstr("\"outcome\":\"converged\""));
  EXPECT_THAT(got.err, IsEmpty());
}

TEST_F(conjugate_gradient, solves_without_preconditioner) {
  const outcome got = run("--poisson 6 --precondition none --json");
  EXPECT_EQ(got.code, 0) << got.err;
  EXPECT_THAT(got.out, HasSubstr("\"preconditioner\":\"none\""));
}

TEST_F(conjugate_gradient, solves_a_poisson_problem_on_any_number_of_targets) {
  for (const char* targets : {"shm", "shm:3"}) {
    const outcome got = run("--poisson 8 --targets " + std::string{targets});
    EXPECT_EQ(got.code, 0) << got.err;
    EXPECT_THAT(got.out, HasSubstr("poisson 8: 512 rows, 3200 nonzeros"));
  }
}

// The option takes precedence over the environment.
TEST_F(conjugate_gradient, option_names_the_targets) {
  ::setenv("FARCALL_TARGETS", "shm:3", 1);
  const outcome got = run("--poisson 4 --json --targets shm");
  ::unsetenv("FARCALL_TARGETS");
  EXPECT_EQ(got.code, 0) << got.err;
  EXPECT_THAT(got.out, HasSubstr("node 1"));
  EXPECT_THAT(got.out, Not(HasSubstr("node 2")));
}

std::string join_words(const std::string& a, const std::string& b) { return a + ' ' + b; }

/// Returns the bytes behind the key in the JSON object, up to the next comma.
std::string value_of(const std::string& json, const std::string& key) {
  const std::size_t at = json.find('"' + key + "\":");
  return at == std::string::npos ? "" : json.substr(at, json.find(',', at) - at);
}

// The solver goes on from a checkpoint, or from the start if there is none yet, to the same bits.
TEST_F(conjugate_gradient, survives_the_death_of_a_target) {
  for (const char* targets : {"shm:2", "shm:3", "shm"}) {
    const std::string solve = join_words("--poisson 24 --json --checkpoint 50 --targets", targets);
    const outcome whole = run(solve);
    ASSERT_EQ(whole.code, 0) << whole.err;
    for (const char* iteration : {"1", "49", "51", "60"}) {
      const outcome got = run(join_words(solve, join_words("--fail-in", iteration)));
      EXPECT_EQ(got.code, 0) << got.err;
      EXPECT_THAT(got.err, HasSubstr(" failed; another target has its rows"));
      const bool has_checkpoint = std::string(iteration) > "50" && std::string(targets) != "shm";
      EXPECT_THAT(got.err, HasSubstr(has_checkpoint ? "from iteration 50\n" : "from iteration 0\n"))
          << targets << ' ' << iteration;
      for (const char* key : {"iterations", "residual"})
        EXPECT_EQ(value_of(got.out, key), value_of(whole.out, key));
    }
  }
}

TEST_F(conjugate_gradient, more_targets_than_rows) {
  const outcome got = run("--poisson 1 --farcall-targets=shm:2");
  EXPECT_EQ(got.code, 0) << got.err;
  EXPECT_THAT(got.out, HasSubstr("target      1 node 1: 1 rows, 1 nonzeros\nsolver"));
}

TEST_F(conjugate_gradient, leaves_options_of_farcall_to_it) {
  EXPECT_EQ(run("--farcall-targets shm:2 --poisson 3 --farcall-spin-us=0").code, 0);
  const outcome got = run("--poisson 3 --farcall-nonsense=1");
  EXPECT_EQ(got.code, 2);
  EXPECT_THAT(got.err, HasSubstr("--farcall-nonsense"));
}

TEST_F(conjugate_gradient, json_is_one_object_on_one_line) {
  const outcome got = run("--poisson 4 --json");
  EXPECT_EQ(got.code, 0) << got.err;
  EXPECT_THAT(got.out, StartsWith("{\"problem\":\"poisson 4\","));
  EXPECT_THAT(got.out, EndsWith("}\n"));
  EXPECT_EQ(std::ranges::count(got.out, '\n'), 1);
  for (const char* key : {"iterations", "residual", "seconds", "host_seconds", "difference"}) {
    EXPECT_THAT(got.out, HasSubstr(std::string{'"'}.append(key).append("\":")));
  }
}

// The time decides whether there is a note, so the test reads the ratio in the output.
TEST_F(conjugate_gradient, notes_that_targets_gained_nothing) {
  const outcome got = run("--poisson 4 --targets shm:2");
  EXPECT_EQ(got.code, 0) << got.err;
  const std::string before = "targets to one thread ";
  const std::size_t at = got.out.find(before);
  ASSERT_NE(at, std::string::npos) << got.out;
  // The ratio is printed with two digits behind the point, so 1.00 may be less than 1.
  const double ratio = std::stod(got.out.substr(at + before.size()));
  if (ratio > 1) {
    EXPECT_THAT(got.out, HasSubstr("\nnote        "));
  } else if (ratio < 1) {
    EXPECT_THAT(got.out, Not(HasSubstr("\nnote")));
  }
  EXPECT_THAT(run("--poisson 4 --targets shm").out, Not(HasSubstr("\nnote")));
}

TEST_F(conjugate_gradient, help) {
  const outcome got = run("--help");
  EXPECT_EQ(got.code, 0);
  EXPECT_THAT(got.out, HasSubstr("--matrix FILE"));
  EXPECT_THAT(got.err, IsEmpty());
}

TEST_F(conjugate_gradient, not_converged_is_exit_code_3) {
  const outcome got = run("--poisson 8 --max-iterations 2");
  EXPECT_EQ(got.code, 3);
  EXPECT_EQ(got.err, "conjugate-gradient: not converged after 2 iterations; raise --max-iterations "
                     "or --tolerance\n");
}

TEST_F(conjugate_gradient, tolerance_below_rounding_errors_is_exit_code_3) {
  const outcome got = run("--tolerance 1e-16 --matrix '" + power_network.string() + "'");
  EXPECT_EQ(got.code, 3);
  EXPECT_EQ(got.err,
            "conjugate-gradient: rounding errors stop the residual short of the tolerance; "
            "raise --tolerance\n");
}

TEST_F(conjugate_gradient, bad_usage) {
  expect_refused("--nonsense", "unknown argument '--nonsense'; see --help");
  expect_refused("matrix.mtx", "unknown argument 'matrix.mtx'; see --help");
  expect_refused("--matrix", "--matrix needs a value; see --help");
  expect_refused("--matrix=", "--matrix needs the name of a file");
  expect_refused("--json=yes", "--json takes no value; see --help");
  expect_refused("--poisson many", "--poisson: 'many' is not a number");
  expect_refused("--poisson 0", "--poisson: N must be 1 to 1290, not 0");
  expect_refused("--poisson 2000000", "--poisson: N must be 1 to 1290, not 2000000");
  expect_refused("--poisson 99999999999999999999",
                 "--poisson: '99999999999999999999' is not a number that fits");
  expect_refused("--tolerance 2", "--tolerance must lie between 1e-16 and 1, for example 1e-10");
  expect_refused("--tolerance 1e-300",
                 "--tolerance must lie between 1e-16 and 1, for example 1e-10");
  expect_refused("--tolerance nan", "--tolerance must lie between 1e-16 and 1, for example 1e-10");
  expect_refused("--max-iterations -1", "--max-iterations: '-1' is not a number");
  expect_refused("--repeat 0", "--repeat must lie between 1 and 100, not 0");
  expect_refused("--checkpoint 0", "--checkpoint must be at least 1");
  expect_refused("--fail-in soon", "--fail-in: 'soon' is not a number");
  expect_refused("--precondition ilu", "--precondition must be jacobi or none, not 'ilu'");
  expect_refused("--poisson 4 --matrix x",
                 "--matrix and --poisson exclude each other; give one of them");
}

TEST_F(conjugate_gradient, bad_targets_are_one_line) {
  const outcome got = run("--poisson 4 --targets nonsense");
  EXPECT_EQ(got.code, 2);
  EXPECT_THAT(got.out, IsEmpty());
  EXPECT_THAT(got.err, StartsWith("conjugate-gradient: "));
  EXPECT_THAT(got.err, HasSubstr("nonsense"));
  EXPECT_EQ(std::ranges::count(got.err, '\n'), 1);
}

TEST_F(conjugate_gradient, missing_file) {
  const std::string path = (folder_ / "none.mtx").string();
  expect_refused("--matrix '" + path + "'", path + ": cannot be opened: No such file or directory");
}

TEST_F(conjugate_gradient, directory) {
  expect_refused("--matrix '" + folder_.string() + "'",
                 folder_.string() + ": is a directory, not a Matrix Market file");
}

TEST_F(conjugate_gradient, wrong_header) {
  expect_bad_file("%%MatrixMarket matrix array real symmetric\n",
                  ":1: format 'array' in the header cannot be used; it must be coordinate");
}

TEST_F(conjugate_gradient, truncated_file) {
  expect_bad_file(header + "3 3 3\n1 1 2\n2 2 2\n",
                  ":4: the file ends after 2 of the 3 entries promised on line 2");
}

TEST_F(conjugate_gradient, index_out_of_range) {
  expect_bad_file(header + "2 2 2\n1 1 2\n9 2 2\n", ":4: row '9' is outside 1 to 2");
}

TEST_F(conjugate_gradient, not_symmetric) {
  expect_bad_file(
      "%%MatrixMarket matrix coordinate real general\n2 2 4\n1 1 2\n2 2 2\n1 2 1\n2 1 -1\n",
      ":5: the matrix is not symmetric: entry (1, 2) is 1 but (2, 1) is -1");
}

TEST_F(conjugate_gradient, not_a_number) {
  expect_bad_file(header + "1 1 1\n1 1 nan\n", ":3: value 'nan' is not finite");
}

TEST_F(conjugate_gradient, huge_sizes) {
  expect_bad_file(
      header + "2147483647 2147483647 2305843008139952128\n1 1 1\n",
      ":3: the file ends after 1 of the 2305843008139952128 entries promised on line 2");
}

TEST_F(conjugate_gradient, indefinite_matrix) {
  const fs::path path = write("indefinite.mtx", header + "2 2 3\n1 1 1\n2 2 1\n2 1 2\n");
  const outcome got = run("--matrix '" + path.string() + "'");
  EXPECT_EQ(got.code, 2);
  EXPECT_THAT(got.out, IsEmpty());
  EXPECT_THAT(got.err, StartsWith("conjugate-gradient: " + path.string() +
                                  ": the matrix is not positive definite, found in iteration "));
}

TEST_F(conjugate_gradient, numbers_beyond_a_double) {
  const fs::path path = write("large.mtx", header + "2 2 2\n1 1 1\n2 2 1.7e308\n");
  const outcome got = run("--matrix '" + path.string() + "'");
  EXPECT_EQ(got.code, 2);
  EXPECT_THAT(got.err, HasSubstr("left the range of a double"));
}

} // namespace
