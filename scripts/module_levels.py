"""Levels of the modules in each crate: no module may use another that uses it, by whatever way.

Where some do, they are a knot, and KNOTS says so: a new one is a fault, and so is one that is there no more.
"""

import pathlib
import re

# Of each crate, sets of modules that use each other. Take one out when you have untied it.
KNOTS = {
    "bench": ["campaign dut engine search sessions sim testbed traffic"],
    # A pool and its buffers.
    "buf": ["depot frame lent packet pool"],
    # The world, and the objects that are applied to it.
    "control": ["intent system"],
    "drivers": ["device guardian kernel"],
    # What objects are, and the views of the store that they look at.
    "model": ["object store"],
    "net": ["adjacency ethernet handoff icmp interface ip nd neighbor router setting tables trace"],
    "scenarios": ["fan table"],
}

# What comes behind is test code.
TESTS = re.compile(r"#\[cfg\((?:all\()?(?:any\()?test\b[^\n]*\]\n(?:#\[[^\n]*\]\n)*(?:pub(?:\([a-z]+\))? )?mod \w+ \{")
COMMENT = re.compile(r"//[^\n]*")
ONE = re.compile(r"\b(?:crate|super)::([a-z_][a-z_0-9]*)")
SEVERAL = re.compile(r"\bcrate::\{([^;]*)\};", re.S)
FIRST = re.compile(r"(?:^|,)\s*([a-z_][a-z_0-9]*)")


def uses(crate):
    """The modules at the top of a crate, each with those that it uses."""
    sources = crate / "src"
    tests = test_modules(sources)
    graph = {}
    for path in sorted(sources.rglob("*.rs")):
        inside = path.relative_to(sources)
        top = inside.parts[0].removesuffix(".rs")
        if top in {"lib", "main", "bin"} or any(part.removesuffix(".rs") in tests for part in inside.parts):
            continue
        text = COMMENT.sub("", path.read_text())
        cut = TESTS.search(text)
        text = text[: cut.start()] if cut else text
        # `super` is the crate only in the files at the top.
        found = {m.group(1) for m in ONE.finditer(text) if m.group(0).startswith("crate") or len(inside.parts) == 1}
        for block in SEVERAL.finditer(text):
            depth, flat = 0, ""
            for character in block.group(1):
                depth += (character == "{") - (character == "}")
                flat += character if depth == 0 else ""
            found |= set(FIRST.findall(flat))
        graph.setdefault(top, set()).update(found)
    return {module: {other for other in found if other in graph and other != module} for module, found in graph.items()}


def test_modules(sources):
    """Names of modules in files of their own that are test code."""
    declared = re.compile(r"#\[cfg\((?:all\()?(?:any\()?test\b[^\n]*\]\n(?:#\[[^\n]*\]\n)*(?:pub(?:\([a-z]+\))? )?mod (\w+);")
    return {m.group(1) for path in sources.rglob("*.rs") for m in declared.finditer(path.read_text())} | {"tests"}


def knots(graph):
    """Sets of modules that use each other (Tarjan's strongly connected components)."""
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
    """Yields a line for each knot that KNOTS does not have, and for each that is no more."""
    for name, manifest in sorted(crates.items()):
        there = knots(uses(pathlib.Path(manifest).parent))
        allowed = {frozenset(knot.split()) for knot in KNOTS.get(name, ())}
        for knot in there:
            if knot not in allowed:
                yield f"{name}: these modules use each other: {' '.join(sorted(knot))}; let one of them not need the others"
        for knot in allowed - set(there):
            yield f"{name}: these modules do not use each other any more: take {' '.join(sorted(knot))} out of KNOTS"
