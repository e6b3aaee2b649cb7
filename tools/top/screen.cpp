// SPDX-License-Identifier: Apache-2.0
#include "screen.hpp"

#include <tools/common/outcome.hpp>

#include <algorithm>
#include <clocale>
#include <csignal>
#include <cstdlib>
#include <string_view>
#include <utility>

#include <curses.h>
#include <fmt/format.h>

namespace farcall::tool {
namespace {

volatile std::sig_atomic_t end_signal = 0;

void note_end(int signal) { end_signal = signal; }

void watch_end_signals() {
  struct sigaction action{};
  action.sa_handler = &note_end;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP})
    ::sigaction(signal, &action, nullptr);
}

constexpr const char* keys_line =
    "? help  q quit  p pause  sort: n node  c calls  l p99  w queue  b busy  u CPU  m memory";

/// Keys, and their effects.
constexpr std::pair<std::string_view, std::string_view> keys[] = {
    {"q", "quit"},
    {"p, space", "pause, or continue"},
    {"up, down", "scroll"},
    {"n", "sort by job and node"},
    {"c, l, w", "sort by calls/s, p99 or queue"},
    {"b, u, m", "sort by busy%, CPU% or memory"},
    {"?", "show or hide this help"}};

} // namespace

screen::screen() {
  // The C library must use the user's locale, because the names are drawn in UTF-8.
  std::setlocale(LC_CTYPE, "");
  const char* const name = std::getenv("TERM"); // NOLINT(concurrency-mt-unsafe): one thread
  if (newterm(name, stdout, stdin) == nullptr) {
    throw failed_run(
        fmt::format("this terminal (TERM={}) cannot show a live view; set TERM to what "
                    "it is, or use --once",
                    name == nullptr ? "" : name));
  }
  watch_end_signals();
  cbreak();
  noecho();
  nodelay(stdscr, TRUE);
  keypad(stdscr, TRUE);
  curs_set(0);
}

screen::~screen() { endwin(); }

bool screen::take_keys() {
  if (end_signal != 0) asked_.quits = true;
  bool has_any = false;
  for (int key = getch(); key != ERR; key = getch()) {
    has_any = true;
    switch (key) {
    case 'q':
      asked_.quits = true;
      break;
    case '?':
    case 'h':
      asked_.shows_help = !asked_.shows_help;
      break;
    case 'p':
    case ' ':
      asked_.is_paused = !asked_.is_paused;
      break;
    case 'n':
      asked_.order = node_order::node;
      break;
    case 'c':
      asked_.order = node_order::calls;
      break;
    case 'l':
      asked_.order = node_order::p99;
      break;
    case 'w':
      asked_.order = node_order::queue;
      break;
    case 'b':
      asked_.order = node_order::busy;
      break;
    case 'u':
      asked_.order = node_order::processor;
      break;
    case 'm':
      asked_.order = node_order::memory;
      break;
    case KEY_DOWN:
      ++first_row_;
      break;
    case KEY_UP:
      first_row_ -= first_row_ == 0 ? 0 : 1;
      break;
    default:
      break;
    }
  }
  return has_any;
}

void screen::draw(const std::string& title, const std::vector<node_rates>& nodes) {
  int rows = 0;
  int columns = 0;
  getmaxyx(stdscr, rows, columns);
  if (rows < 1 || columns < 1) return;
  std::vector<node_rates> sorted = nodes;
  sort_nodes(sorted, asked_.order);
  // Don't use the last column of the terminal. Drawing a character into the last cell of the last
  // line would scroll the screen.
  const auto width = static_cast<std::size_t>(std::max(columns - 1, 1));
  const std::vector<std::string> lines = node_table(sorted, width);
  const auto put = [&](int row, const std::string& text) {
    mvaddnstr(row, 0, text.c_str(), columns - 1);
  };
  erase();
  attron(A_BOLD);
  put(0, asked_.is_paused ? title + "  (paused)" : title);
  attroff(A_BOLD);
  if (asked_.shows_help) {
    draw_help(rows, columns);
    return;
  }
  const bool has_keys = rows > 4;
  const int space = rows - 2 - (has_keys ? 1 : 0);
  const auto shown = static_cast<std::size_t>(std::max(space, 0));
  first_row_ = std::min(first_row_, lines.size() - 1 - std::min(lines.size() - 1, shown));
  if (rows > 1) {
    attron(A_REVERSE);
    put(1, lines.front() + std::string(width - std::min(width, lines.front().size()), ' '));
    attroff(A_REVERSE);
  }
  for (int row = 0; row < space; ++row) {
    const std::size_t at = 1 + first_row_ + static_cast<std::size_t>(row);
    if (at < lines.size()) put(row + 2, lines[at]);
  }
  if (has_keys) put(rows - 1, keys_line);
  refresh();
}

void screen::draw_help(int rows, int columns) {
  int row = 2;
  const auto put = [&](std::string_view name, std::string_view text) {
    if (row >= rows) return;
    const std::string line = fmt::format("  {:10} {}", name, text);
    mvaddnstr(row++, 0, line.c_str(), columns - 1);
  };
  for (const auto& [key, effect] : keys)
    put(key, effect);
  ++row;
  for (const auto& [names, meaning] : column_meanings())
    put(names, meaning);
  refresh();
}

} // namespace farcall::tool
