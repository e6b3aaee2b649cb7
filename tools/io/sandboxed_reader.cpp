// SPDX-License-Identifier: Apache-2.0

// Prints the first word of a file that the job's first target reads, and of the same file read by a
// program that the target starts:
//
//   farcall run --host-files=FOLDER farcall_sandboxed_reader FILE [PROGRAM]

#include <farcall/farcall.hpp>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

namespace {

std::string first_word(const std::string& path) {
  std::string word;
  std::ifstream(path) >> word;
  return word;
}

std::string first_word_by_program(const std::string& program, const std::string& path) {
  char word[100]{};
  // NOLINTNEXTLINE(cert-env33-c): a program is what is tested
  std::FILE* const out = ::popen((program + " " + path).c_str(), "r");
  if (out == nullptr || std::fscanf(out, "%99s", word) != 1) word[0] = '\0';
  if (out != nullptr) ::pclose(out);
  return word;
}

} // namespace

int main(int argc, char** argv) {
  farcall::job j{argc, argv};
  const farcall::node target = j.targets().front();
  const std::string path = argc > 1 ? argv[1] : "";
  const std::string program = argc > 2 ? argv[2] : "cat";
  std::printf("%s %s\n", farcall::sync(target, first_word, path).c_str(),
              farcall::sync(target, first_word_by_program, program, path).c_str());
}
