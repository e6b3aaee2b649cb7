# SPDX-License-Identifier: Apache-2.0
"""Makes the page of the site about the Python package, from the docstrings of its public names.

The files are only parsed, so the package need not be built. A public class, function or method without a docstring is
an error.
"""

import ast
import inspect
import pathlib

PACKAGE = pathlib.Path("python/farcall")
PAGE_ID = "page_python_reference"
LONGEST_LINE = 100
# Methods of public classes that only the package itself calls.
INTERNAL = {"has_ended", "settle_alone", "set_stopped"}
INTRODUCTION = """\
# Python {#page_python_reference}

The public names of the package `farcall`. The guide explains their use.
"""


def public_names():
    """Returns the names that the package exports, in their order."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and any(getattr(t, "id", "") == "__all__" for t in node.targets):
            return [item.value for item in node.value.elts]
    raise SystemExit(f"{PACKAGE}/__init__.py: has no list __all__")


def definitions():
    """Returns the classes and functions of the package by their names, with their files."""
    found = {}
    for path in sorted(PACKAGE.glob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                found.setdefault(node.name, (node, path))
    return found


def argument(node, default=None, stars=""):
    """Returns the declaration of an argument."""
    text = stars + node.arg
    if node.annotation is not None:
        text += f": {ast.unparse(node.annotation)}"
    if default is not None:
        text += (" = " if node.annotation is not None else "=") + ast.unparse(default)
    return text


def arguments_of(node, is_method):
    """Returns the declarations of the arguments, without the object of a method."""
    given = node.args
    places = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(places) - len(given.defaults)) + given.defaults
    parts = [argument(*pair) for pair in zip(places, defaults)]
    if given.posonlyargs:
        parts.insert(len(given.posonlyargs), "/")
    if is_method and not is_static(node):
        del parts[0]
        if parts[:1] == ["/"]:
            del parts[0]
    if given.vararg is not None:
        parts.append(argument(given.vararg, stars="*"))
    elif given.kwonlyargs:
        parts.append("*")
    parts += [argument(*pair) for pair in zip(given.kwonlyargs, given.kw_defaults)]
    if given.kwarg is not None:
        parts.append(argument(given.kwarg, stars="**"))
    return parts


def signature(node, is_method):
    """Returns the declaration of a function. Each argument has a line if they do not fit on one line."""
    parts = arguments_of(node, is_method)
    result = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
    prefix = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
    line = f"{prefix}{node.name}({', '.join(parts)}){result}"
    if len(line) <= LONGEST_LINE:
        return line
    lines = "".join(f"    {part},\n" for part in parts)
    return f"{prefix}{node.name}(\n{lines}){result}"


def is_static(node):
    """True if the method has no argument for its object."""
    return any(getattr(decorator, "id", "") == "staticmethod" for decorator in node.decorator_list)


def is_property(node):
    """True if the method is used like an attribute."""
    return any(getattr(decorator, "id", "") == "property" for decorator in node.decorator_list)


def is_setter(node):
    """True if the method sets a property."""
    return any(getattr(decorator, "attr", "") in ("setter", "deleter") for decorator in node.decorator_list)


def text_of(node, where, wrong):
    """Returns the docstring. Notes its absence in `wrong`."""
    text = ast.get_docstring(node)
    if text is None:
        wrong.append(f"{where}:{node.lineno}: {node.name} has no docstring")
        return ""
    return inspect.cleandoc(text)


def class_text(node, path, wrong):
    """Yields the parts of the description of a class."""
    bases = ", ".join(ast.unparse(base) for base in node.bases)
    yield f"## {node.name}\n\n```py\nclass {node.name}({bases})\n```\n\n{text_of(node, path, wrong)}\n"
    for member in node.body:
        if not isinstance(member, (ast.FunctionDef, ast.AsyncFunctionDef)) or is_setter(member):
            continue
        if member.name == "__init__" and ast.get_docstring(member) is not None:
            line = signature(member, True).removesuffix(" -> None").replace("__init__", node.name, 1)
        elif member.name.startswith("_") or member.name in INTERNAL:
            continue
        elif is_property(member):
            line = f"{member.name}: {ast.unparse(member.returns)}" if member.returns is not None else member.name
        else:
            line = signature(member, True)
        # A method with the docstring of its base class needs none.
        text = ast.get_docstring(member)
        if text is not None:
            yield f"```py\n{line}\n```\n\n{inspect.cleandoc(text)}\n"


def page():
    """Returns the text of the page, and the list of complaints."""
    wrong = []
    found = definitions()
    parts = [INTRODUCTION]
    standard = []
    for name in public_names():
        if name not in found:
            standard.append(name)
            continue
        node, path = found[name]
        if isinstance(node, ast.ClassDef):
            parts += class_text(node, path, wrong)
        else:
            parts.append(f"## {name}\n\n```py\n{signature(node, False)}\n```\n\n{text_of(node, path, wrong)}\n")
    if standard:
        names = ", ".join(f"`{name}`" for name in standard)
        parts.append(f"## Names of concurrent.futures\n\n{names}\n")
    return "\n".join(parts), wrong
