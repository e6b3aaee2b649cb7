# SPDX-License-Identifier: Apache-2.0
"""Extracts the passages of a file: comments, paragraphs, messages and names of tests.

A passage is a run of words that is read at once: a comment, a paragraph, a list item, a cell of a
table, adjacent string literals.
"""

import ast
import bisect
import io
import re
import tokenize
from typing import NamedTuple

COMMENT, TEXT, MESSAGE, NAME = "comment", "text", "message", "name"

LANGUAGE_OF_SUFFIX = {
    **dict.fromkeys(("c", "cc", "cpp", "cu", "cuh", "dox", "h", "hpp"), "c"),
    **dict.fromkeys(("sh", "bash"), "shell"), "py": "python", "cmake": "cmake", "md": "markdown"}
SHEBANG = re.compile(r"#!.*?\b(?:(python)|(?:ba|da|z)?sh\b)")

FEWEST_WORDS = 5
FEWEST_WORDS_OF_NAME = 3
WORD = re.compile(r"[A-Za-z][A-Za-z'’-]*[a-z]\b|\b[aAI]\b")
# Lines that are no prose: licences, and directives to tools.
NO_PROSE = re.compile(r"SPDX|Copyright|\(c\) \d|NOLINT|clang-format|[Ll]icensed under|noqa|shellcheck disable")
URL = re.compile(r"\b(?:https?|ftp)://\S+|\bwww\.\S+")
LIST_ITEM = re.compile(r"\s*(?:[*+•-]|\(?\d+[.)])\s+(?=\S)")
COLUMNS = re.compile(r"\s*(\S.{0,38}?[^.!?:,;\s])(?: {2,}|\t+)(?=\S)")
CODE_END = re.compile(r"[;{}]\s*$")
CODE_BEGIN = re.compile(r"\s*(?:#\s*(?:if|ifdef|ifndef|define|include|endif|else)\b|\})")
PLACEHOLDER = re.compile(r"\{[^{}\s]*\}|%[-+0-9.*]*l*[a-z]")
PLAIN_WORD = re.compile(r"\(?[A-Za-z][A-Za-z'’-]*[.,:;!?)]*")
DOC_COMMAND = re.compile(r"[@\\](?:brief|details|returns?|param(?:\[\w+\])? \w+|tparam \w+|note|throws \w+|file)\s+")
TEST = re.compile(r"\b(?:TYPED_TEST|TEST(?:_F|_P)?)\(\s*(\w+)\s*,\s*(\w+)\s*\)")
PYTHON_TEST = re.compile(r"^[ \t]+def (test_\w+)\(", re.M)
CTEST = re.compile(r"\badd_test\(\s*NAME\s+([^\s)]+)")


class Passage(NamedTuple):
    line: int
    kind: str
    text: str


def language_of(path, text):
    """Returns "c", "shell", "python", "cmake" or "markdown", or None for other files."""
    name = path.rsplit("/", 1)[-1].removesuffix(".in")
    if name == "CMakeLists.txt":
        return "cmake"
    if "." in name:
        return LANGUAGE_OF_SUFFIX.get(name.rsplit(".", 1)[-1])
    shebang = SHEBANG.match(text[:100])
    return ("python" if shebang[1] else "shell") if shebang else None


def is_test(path):
    """True if the file's string literals are a test's data. Check programs' literals are messages."""
    *folders, name = path.split("/")
    return "_test." in name or "tests" in folders and not name.startswith("check_")


def passages(path, text):
    """Returns the passages of a file, and none for a file in another language."""
    language = language_of(path, text)
    if language is None:
        return []
    return sorted(EXTRACTORS[language](text, not is_test(path)))


class Lines:
    """Line numbers of a text's offsets."""

    def __init__(self, text):
        self._starts = [0, *(m.end() for m in re.finditer("\n", text))]

    def number(self, offset):
        return bisect.bisect_right(self._starts, offset)

    def column(self, offset):
        return offset - self._starts[self.number(offset) - 1]


def is_code(line):
    """True for a line of a program. Prose may end with a semicolon, too, but most of it is words."""
    if CODE_BEGIN.match(line):
        return True
    if not CODE_END.search(line):
        return False
    parts = line.split()
    return sum(bool(PLAIN_WORD.fullmatch(p)) for p in parts) < 0.6 * len(parts)


def is_prose(text):
    return len(WORD.findall(text)) >= FEWEST_WORDS and not NO_PROSE.search(text)


def is_message(text):
    """True if most of a literal is words: formats, programs, queries and pages are left out."""
    text = PLACEHOLDER.sub("X", text)
    parts = text.split()
    words = sum(bool(re.fullmatch(r"[(\"'`]*[A-Za-z][A-Za-z'’-]*[.,:;!?)\"'`]*", p)) for p in parts)
    return words >= FEWEST_WORDS and words >= 0.6 * len(parts) and is_prose(text) and not re.search(
        r"</|/>|\);|\{\n|&[a-z]+;|[;{}]\s*$", text)


def split(lines, kind, accept=is_prose):
    """Yields passages of (number, text) lines: blank lines, list items and columns separate them."""
    begin, run = 0, []

    def take():
        if run:
            text = DOC_COMMAND.sub("", " ".join(run)).strip()
            if accept(text):
                yield Passage(begin, kind, text)
            run.clear()

    fenced = False
    for number, line in lines:
        if line.lstrip().startswith(("```", "@code", "@endcode", "\\code")):
            fenced = not fenced
            yield from take()
            continue
        if fenced or is_code(line):
            yield from take()
            continue
        line = URL.sub("URL", line)
        cut = LIST_ITEM.match(line) or COLUMNS.match(line)
        if cut or not line.strip(" -=*#/_~"):
            yield from take()
            line = line[cut.end():] if cut else ""
        if line.strip():
            begin = begin if run else number
            run.append(line.strip())
    yield from take()


def numbered(text, first):
    return list(enumerate(text.split("\n"), first))


# Languages of the C family

C_TOKEN = re.compile(
    r'R"(?P<delimiter>[^()\\\s]{0,16})\((?P<raw>.*?)\)(?P=delimiter)"'
    r'|"(?P<string>(?:[^"\\\n]|\\.)*)"'
    r"|\b[0-9](?:'?\w)*|'(?:[^'\\\n]|\\.){1,10}'"
    r"|//(?P<line>(?:[^\n\\]|\\.)*)"
    r"|/\*(?P<block>.*?)\*/", re.S)
ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{1,2}|[0-7]{1,3}|\n|.)", re.S)
ESCAPED = {"n": "\n", "t": "\t", "\n": ""}
DIRECTIVE = re.compile(r"[ \t]*#[ \t]*(?:include|pragma|line)\b")


def unescaped(literal):
    return ESCAPE.sub(lambda m: ESCAPED.get(m[1], m[1] if len(m[1]) == 1 and not m[1].isdigit() else " "), literal)


class CommentLines:
    """A run of `//` comments, below each other in one column."""

    def __init__(self):
        self.lines, self.column, self.marker = [], 0, ""

    def continues(self, number, column, marker, is_whole_line):
        return (self.lines and is_whole_line and number == self.lines[-1][0] + 1 and column == self.column
                and marker == self.marker)

    def take(self):
        yield from split(self.lines, COMMENT)
        self.lines = []


def of_c(text, with_messages):
    lines, run, literals = Lines(text), CommentLines(), []
    for token in C_TOKEN.finditer(text):
        begin = token.start()
        kind = token.lastgroup
        if kind == "line":
            number, column = lines.number(begin), lines.column(begin)
            marker, words = re.match(r"([/!]?<?) ?(.*)", token["line"], re.S).groups()
            is_whole_line = not text[begin - column:begin].strip()
            if not run.continues(number, column, marker, is_whole_line):
                yield from run.take()
                run.column, run.marker = column, marker
            run.lines.append((number, words))
        elif kind == "block":
            yield from run.take()
            block = re.sub(r"(?m)^[ \t]*\*+ ?", "", token["block"].lstrip("*!<").rstrip("*"))
            yield from split(numbered(block, lines.number(begin)), COMMENT)
        elif with_messages and kind in ("string", "raw"):
            literal = token["raw"] if kind == "raw" else unescaped(token["string"])
            if literals and not text[literals[-1][1]:begin].strip():
                literals[-1] = (literals[-1][0], token.end(), literals[-1][2] + literal)
            else:
                literals.append((begin, token.end(), literal))
    yield from run.take()
    for begin, _, literal in literals:
        start = begin - lines.column(begin)
        if " " in literal and not DIRECTIVE.match(text, start):
            yield from split(numbered(literal, lines.number(begin)), MESSAGE, is_message)
    if "TEST" in text:
        for test in TEST.finditer(text):
            yield from name_of_test(lines.number(test.start()), test[2], test[1])


def name_of_test(number, name, suite=None):
    """Yields the words of a name as a sentence. Names of few words are too short to be judged."""
    words = [w for w in re.split(r"[_.\s-]+", name) if w]
    if len(words) >= FEWEST_WORDS_OF_NAME:
        sentence = " ".join(words)
        yield Passage(number, NAME, sentence[0].upper() + sentence[1:] + (f" [{suite}]" if suite else ""))


# Python

def literal_text(node):
    """Returns a string literal's text, with `{}` for each value that is put in, or None."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(v.value if isinstance(v, ast.Constant) else "{}" for v in node.values)
    return None


def docstring_of(node):
    if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        first = node.body[0] if node.body else None
        if isinstance(first, ast.Expr) and isinstance(literal_text(first.value), str):
            return first.value
    return None


def strings_of(node, docstrings, messages):
    """Sorts the string literals of a syntax tree into docstrings and others."""
    docstring = docstring_of(node)
    if docstring is not None:
        docstrings.append(docstring)
    for child in ast.iter_child_nodes(node):
        if literal_text(child) is not None:
            if child not in docstrings:
                messages.append(child)
        else:
            strings_of(child, docstrings, messages)


def of_python(text, with_messages):
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return
    if "#" in text:
        lines = []
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT and not token.string.startswith("#!"):
                number = token.start[0]
                whole = not token.line[:token.start[1]].strip()
                if lines and not (whole and lines[-1][0] == number - 1):
                    yield from split(lines, COMMENT)
                    lines = []
                lines.append((number, token.string.lstrip("#")))
        yield from split(lines, COMMENT)
    docstrings, messages = [], []
    strings_of(tree, docstrings, messages)
    for node in docstrings:
        yield from split(numbered(literal_text(node), node.lineno), COMMENT)
    for node in messages if with_messages else ():
        yield from split(numbered(literal_text(node), node.lineno), MESSAGE, is_message)
    if "def test_" in text:
        lines = Lines(text)
        for test in PYTHON_TEST.finditer(text):
            yield from name_of_test(lines.number(test.start()), test[1].removeprefix("test_"))


# CMake and shells

CMAKE_TOKEN = re.compile(
    r'"(?:[^"\\]|\\.)*"|\\.|\[(?P<level>=*)\[.*?\](?P=level)\]|#\[(?P<equals>=*)\[(?P<block>.*?)\](?P=equals)\]'
    r"|#(?P<line>[^\n]*)", re.S)
SHELL_TOKEN = re.compile(
    r"<<<|<<-?[ \t]*(?P<quote>['\"]?)(?P<tag>[A-Za-z_]\w*)(?P=quote)[^\n]*\n(?P<heredoc>.*?)^\t*(?P=tag)$"
    r"|\$'(?:[^'\\]|\\.)*'|'[^']*'|\"(?:[^\"\\]|\\.)*\"|\\.|(?:(?<=[\s;])|^)#(?P<line>[^\n]*)", re.S | re.M)


def hash_comments(text, tokens):
    """Yields passages of the `#` comments among tokens, and passages of other tokens with text."""
    lines, run, last_column = Lines(text), [], 0
    for token in tokens:
        if token.lastgroup == "line":
            at = token.end() - len(token["line"]) - 1
            number, column = lines.number(at), lines.column(at)
            if token["line"].startswith("!"):
                continue
            whole = not text[at - column:at].strip()
            if run and not (whole and run[-1][0] == number - 1 and column == last_column):
                yield from split(run, COMMENT)
                run = []
            run.append((number, token["line"].lstrip("#")))
            last_column = column
        elif token.lastgroup == "block":
            yield from split(numbered(token["block"], lines.number(token.start())), COMMENT)
        elif token.lastgroup == "heredoc":
            line = text[text.rfind("\n", 0, token.start()) + 1:token.start()]
            if re.search(r"\b(?:cat|echo)\b", line):
                first = lines.number(token.start("heredoc"))
                yield from split(numbered(token["heredoc"], first), MESSAGE, is_message)
    yield from split(run, COMMENT)


def of_cmake(text, _):
    yield from hash_comments(text, CMAKE_TOKEN.finditer(text))
    lines = Lines(text)
    for test in CTEST.finditer(text):
        yield from name_of_test(lines.number(test.start()), test[1])


def of_shell(text, with_messages):
    tokens = (t for t in SHELL_TOKEN.finditer(text) if with_messages or t.lastgroup != "heredoc")
    yield from hash_comments(text, tokens)


# Markdown

LINK = re.compile(r"!?\[([^\]]*)\](?:\([^)\s]*\)|\[[^\]]*\])")
QUOTE = re.compile(r"\s*(?:>\s*)+")
FRONT = re.compile(r"\s*(?:#|<|!\[|>\s*$)")


def cells(row):
    """Returns a table row's cells. A bar in code separates none."""
    masked = re.sub(r"`[^`]*`", lambda m: "`" * len(m[0]), row).replace("\\|", "  ")
    ends = [i for i, c in enumerate(masked) if c == "|"] + [len(row)]
    return [row[a + 1:b].strip() for a, b in zip(ends, ends[1:])]


def of_markdown(text, _):
    lines, fenced = [], False
    for number, line in numbered(text, 1):
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
            line = ""
        if fenced or FRONT.match(line):
            line = ""
        line = LINK.sub(r"\1", QUOTE.sub("", line))
        if line.lstrip().startswith("|"):
            lines.append((number, ""))
            for cell in cells(line.lstrip()):
                if is_prose(cell):
                    yield Passage(number, TEXT, cell)
            continue
        # Braces and semicolons at a line's end are text here.
        lines.append((number, line + " " if line else ""))
    yield from split_text(lines)


def split_text(lines):
    run, begin = [], 0
    for number, line in [*lines, (0, "")]:
        item = LIST_ITEM.match(line)
        if (item or not line.strip()) and run:
            text = URL.sub("URL", " ".join(run))
            if is_prose(text):
                yield Passage(begin, TEXT, text)
            run = []
        line = line[item.end():] if item else line
        if line.strip():
            begin = begin if run else number
            run.append(line.strip())


EXTRACTORS = {"c": of_c, "python": of_python, "cmake": of_cmake, "shell": of_shell, "markdown": of_markdown}
