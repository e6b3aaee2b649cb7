# SPDX-License-Identifier: Apache-2.0
"""Reads the declarations and comments of a C++ header of this tree.

The reader is a tokenizer and a stack of scopes. It knows the style of this tree rather than all of C++.
"""

import dataclasses
import re

TOKEN = re.compile(
    r"(?P<doc>///[^\n]*)|(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<directive>^[ \t]*\#(?:\\\n|[^\n])*)"
    r'|(?P<string>"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\')|(?P<line>\n)'
    r"|(?P<word>[A-Za-z_]\w*)|(?P<number>\d[\w.\']*)|(?P<sign>::|->|\[\[|\]\]|[^\s])",
    re.S | re.M)

NO_NAME = {"noexcept", "requires", "decltype", "alignas", "explicit", "sizeof"}
SKIPPED = {"friend", "static_assert", "using", "typedef", "extern", "goto"}


@dataclasses.dataclass
class Declaration:
    kind: str  # class, enum, function, variable, concept
    name: str  # with the classes and namespaces around it
    line: int
    comment: str
    tokens: list
    in_class: bool
    bases: str = ""
    is_definition: bool = True

    @property
    def is_noexcept(self):
        return "noexcept" in self.tokens or "~" in self.tokens[:2] or "consteval" in self.tokens

    @property
    def is_special(self):
        """True for constructors, destructors and operators, whose meaning the language defines."""
        last = self.name.rsplit("::", 1)[-1]
        outer = self.name.rsplit("::", 2)[-2] if "::" in self.name else ""
        return last in ("operator", outer) or "~" in self.tokens or "operator" in self.tokens


@dataclasses.dataclass
class Scope:
    kind: str  # namespace, class, enum, body
    name: str
    public: bool = True


def tokens_of(text):
    """Yields (kind, text, line) of tokens. Leaves out directives, attributes and the contents of strings."""
    line, depth = 1, 0
    for match in TOKEN.finditer(text):
        kind, word = match.lastgroup, match.group()
        if word == "[[":
            depth += 1
        elif word == "]]":
            depth -= 1
        elif depth == 0 and kind in ("doc", "word", "number", "sign", "string"):
            yield kind, word, line
        line += word.count("\n")


def without_templates(tokens):
    """Returns a declaration without the leading `template <...>` and `requires (...)`."""
    rest = list(tokens)
    while rest and rest[0] in ("template", "requires"):
        word = rest.pop(0)
        opening, closing = ("<", ">") if word == "template" else ("(", ")")
        if not rest or rest[0] != opening:
            # The end of `requires is_bitwise<T>` is a guess: this tree's style ends it with a `>` or
            # a name.
            while rest and rest[0] != ">":
                rest.pop(0)
            rest = rest[1:]
            continue
        depth = 0
        while rest:
            token = rest.pop(0)
            depth += (token == opening) - (token == closing)
            if depth == 0:
                break
        while rest and word == "requires" and rest[0] in ("&", "|"):
            rest = rest[2:]
    return rest


def name_of_function(tokens):
    """Returns the word before the first parameter list, or None if there is no list."""
    angle = 0
    for i, token in enumerate(tokens):
        if token == "operator":
            return "" if "::" in tokens[:i] and tokens[i - 1] == "::" else "operator"
        if token == "<":
            angle += 1
        elif token == ">":
            angle -= 1
        elif token == "=" and angle <= 0:
            return None
        elif token == "(" and angle <= 0 and i > 0:
            before = tokens[i - 1]
            if re.match(r"[A-Za-z_]", before) and before not in NO_NAME:
                # A member's definition outside of its class has no comment of its own.
                return "" if tokens[i - 2:i - 1] == ["::"] else before
    return None


class Reader:
    def __init__(self, text):
        self.items = list(tokens_of(text))
        self.at = 0
        self.scopes = []
        self.found = []
        self.last = None  # the declaration that a trailing comment belongs to
        self.last_line = 0

    def inside(self, kind):
        return bool(self.scopes) and self.scopes[-1].kind == kind

    def is_visible(self):
        return all(s.public and "detail" not in s.name and s.name != "" for s in self.scopes)

    def path(self, name):
        return "::".join([s.name for s in self.scopes if s.name] + [name])

    def read(self):
        comment, start, current, parens = [], 0, [], 0
        while self.at < len(self.items):
            kind, word, line = self.items[self.at]
            self.at += 1
            if kind == "doc":
                if word.startswith("///<"):
                    target = self.last
                    if target is not None and not current:
                        target.comment += " " + word[4:].strip()
                    else:
                        comment.append(word[4:].strip())
                elif not current:
                    if comment and line > start + 1:
                        comment = []
                    comment.append(word[3:].strip())
                    start = line
                continue
            if word == "}" and not current:
                if self.scopes:
                    self.scopes.pop()
                comment = []
                continue
            if word == ";" and not current:
                continue
            if not current:
                first_line = line
            if word in "([":
                parens += 1
            elif word in ")]":
                parens -= 1
            if word == ":" and len(current) == 1 and current[0] in ("public", "protected", "private"):
                self.scopes[-1].public = current[0] == "public"
                current, comment = [], []
                continue
            if word == ";" and parens == 0:
                self.declare(current, " ".join(comment), first_line, False)
                current, comment = [], []
                continue
            if word == "{" and parens == 0:
                if self.open(current, " ".join(comment), first_line):
                    current, comment = [], []
                else:
                    current.append("{}")
                    if name_of_function(without_templates(current)) is not None and self.body_ended(current):
                        self.declare(current, " ".join(comment), first_line, True)
                        current, comment = [], []
                continue
            current.append(word)
        return self.found

    def body_ended(self, current):
        """True unless the braces were a member initialiser: another initialiser or the body follows."""
        following = self.items[self.at][1] if self.at < len(self.items) else ""
        rest = without_templates(current)
        return not (":" in rest and following in (",", "{"))

    def skip_braces(self):
        depth = 1
        while self.at < len(self.items) and depth:
            word = self.items[self.at][1]
            depth += (word == "{") - (word == "}")
            self.at += 1

    def open(self, tokens, comment, line):
        """Opens the scope of a `{`. Skips the contents and returns False if the `{` opens none."""
        rest = without_templates(tokens)
        if rest and rest[0] in ("namespace", "inline") and "namespace" in rest[:2]:
            names = [t for t in rest if re.match(r"[A-Za-z_]", t) and t not in ("namespace", "inline")]
            self.scopes.append(Scope("namespace", "::".join(names)))
            return True
        if rest and rest[0] == "extern":
            self.scopes.append(Scope("namespace", "C"))
            return True
        words = [t for t in rest if not re.fullmatch(r"[A-Z]+_\w+_CLASS", t)]  # attributes as macros
        if words and words[0] in ("class", "struct", "union", "enum"):
            kind = words[0]
            i = 2 if words[1:2] and words[1] in ("class", "struct") else 1
            while i < len(words) and words[i] == "alignas":
                i += 4
            name = words[i] if i < len(words) and re.match(r"[A-Za-z_]", words[i]) else ""
            head = words[i + 1:]
            special = head[:1] in (["<"], ["::"])
            colon = head.index(":") if ":" in head else len(head)
            if not special and "(" in head[:colon]:  # a function that returns `struct name`
                self.skip_braces()
                return False
            bases = " ".join(head[colon + 1:])
            if kind == "enum":
                self.add("enum", name, line, comment, tokens)
                self.skip_braces()
                return True
            if name and not special:
                self.add("class", name, line, comment, tokens, bases)
            # Members of a specialisation have their comments in the template.
            self.scopes.append(Scope("class", "detail" if special else name or "unnamed",
                                     kind != "class"))
            return True
        self.skip_braces()
        return False

    def declare(self, tokens, comment, line, is_body):
        rest = without_templates(tokens)
        if not rest or rest[0] in SKIPPED or "friend" in rest[:2]:
            return
        if rest[0] in ("class", "struct", "enum", "union") and len(rest) <= 3:
            return  # a forward declaration
        if rest[0] == "concept":
            self.add("concept", rest[1], line, comment, tokens)
            return
        name = name_of_function(rest)
        if name is not None:
            if name:
                self.add("function", name, line, comment, tokens)
            return
        words = [t for t in rest[:rest.index("=")] if t] if "=" in rest else rest
        names = [t for t in words if re.match(r"[A-Za-z_]", t)]
        if names:
            self.add("variable", names[-1], line, comment, tokens)

    def add(self, kind, name, line, comment, tokens, bases=""):
        declaration = Declaration(kind, self.path(name), line, comment, tokens,
                                  any(s.kind == "class" for s in self.scopes), bases)
        self.last = declaration
        if self.is_visible():
            self.found.append(declaration)


def declarations(text):
    """Returns the header's public declarations, without those in a namespace detail."""
    return Reader(text).read()
