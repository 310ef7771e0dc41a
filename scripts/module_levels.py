"""Levels of the modules in each crate: modules must not use each other in circles, directly or indirectly.

A group of modules that use each other is called a knot, and each knot is a fault. It is also a fault if a module uses a front end
without belonging to it.
"""

import pathlib
import re

# The code from this line to the end of a file is test code.
TESTS = re.compile(r"#\[cfg\((?:all\()?(?:any\()?test\b[^\n]*\]\n(?:#\[[^\n]*\]\n)*(?:pub(?:\([a-z]+\))? )?mod \w+ \{")
# The attribute for a module whose file has another name.
FILE = re.compile(r'#\[path = "(\w+)\.rs"\]')
COMMENT = re.compile(r"//[^\n]*")
ONE = re.compile(r"\b(?:crate|super)::([a-z_][a-z_0-9]*)")
SEVERAL = re.compile(r"\bcrate::\{([^;]*)\};", re.S)
FIRST = re.compile(r"(?:^|,)\s*([a-z_][a-z_0-9]*)")
# A line of lib.rs that re-exports items of a module: the module, and the items.
GIVEN = re.compile(r"^pub(?:\([a-z]+\))? use ([a-z_0-9]+)::([^;]*);", re.M)
ITEM = re.compile(r"(\w+)\s*(?=[,}]|$)")
USED = re.compile(r"\b(?:crate|super)::(\w+)|\bcrate::\{([^;]*)\};", re.S)
# Front ends: only these modules of the crate use them.
FRONT_ENDS = {("control", "commands"): {"check", "features", "testing"}}


def uses(crate):
    """Returns the top modules of a crate, each with the modules that it uses."""
    sources = crate / "src"
    tests = test_modules(sources)
    given = given_items(sources)
    graph = {}
    for path in sorted(sources.rglob("*.rs")):
        inside = path.relative_to(sources)
        top = inside.parts[0].removesuffix(".rs")
        if top in {"lib", "main", "bin"} or any(part.removesuffix(".rs") in tests for part in inside.parts):
            continue
        text = COMMENT.sub("", path.read_text())
        cut = TESTS.search(text)
        text = text[: cut.start()] if cut else text
        # `super` is the crate only in files at the top level.
        found = {m.group(1) for m in ONE.finditer(text) if m.group(0).startswith("crate") or len(inside.parts) == 1}
        for block in SEVERAL.finditer(text):
            depth, flat = 0, ""
            for character in block.group(1):
                depth += (character == "{") - (character == "}")
                flat += character if depth == 0 else ""
            found |= set(FIRST.findall(flat))
        for m in USED.finditer(text):
            if m.group(0).startswith("crate") or len(inside.parts) == 1:
                found |= {given[name] for name in re.findall(r"\w+", m.group(1) or m.group(2)) if name in given}
        graph.setdefault(top, set()).update(found)
    return {module: {other for other in found if other in graph and other != module} for module, found in graph.items()}


def given_items(sources):
    """Returns the items that lib.rs re-exports, such as `crate::Tables`, each with its module."""
    root = sources / "lib.rs"
    lines = GIVEN.findall(COMMENT.sub("", root.read_text())) if root.exists() else []
    return {item: module for module, items in lines for item in ITEM.findall(items)}


def test_modules(sources):
    """Returns the names of test modules that have their own files, and of the files that a `path` attribute names."""
    declared = re.compile(r"#\[cfg\((?:all\()?(?:any\()?test\b[^\n]*\]\n((?:#\[[^\n]*\]\n)*)(?:pub(?:\([a-z]+\))? )?mod (\w+);")
    names = {"tests"}
    for path in sources.rglob("*.rs"):
        for attributes, name in declared.findall(path.read_text()):
            file = FILE.search(attributes)
            names.add(file.group(1) if file else name)
    return names


def knots(graph):
    """Returns sets of modules that use each other (Tarjan's strongly connected components)."""
    order, low, stack, found = {}, {}, [], []

    def visit(module):
        order[module] = low[module] = len(order)
        stack.append(module)
        for other in sorted(graph[module]):
            if other not in order:
                visit(other)
                low[module] = min(low[module], low[other])
            elif other in stack:
                low[module] = min(low[module], order[other])
        if low[module] == order[module]:
            at = stack.index(module)
            knot = frozenset(stack[at:])
            del stack[at:]
            if len(knot) > 1:
                found.append(knot)

    for module in sorted(graph):
        if module not in order:
            visit(module)
    return found


def faults(crates):
    """Yields a line for each knot, and for each use of a front end."""
    for name, manifest in sorted(crates.items()):
        graph = uses(pathlib.Path(manifest).parent)
        for module, used in sorted(graph.items()):
            for front_end in sorted(used):
                allowed = FRONT_ENDS.get((name, front_end))
                if allowed is not None and module not in allowed:
                    yield f"{name}: {module} uses {front_end}, a front end: make a request of app instead"
        for knot in knots(graph):
            yield f"{name}: these modules use each other: {' '.join(sorted(knot))}: remove one of the dependencies"
