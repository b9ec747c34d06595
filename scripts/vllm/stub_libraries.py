#!/usr/bin/env python3
"""Stands in for NVIDIA's libraries, so that PyPI's torch loads on a machine without a GPU and without 2.7 GB of them.

    scripts/vllm/stub_libraries.py TORCH/lib

Torch names these libraries and their symbols; the loader wants to find both, and without a GPU nothing calls them. Each stub is a shared library
of the wanted name in TORCH/lib, with the wanted symbols under the wanted versions as functions that return 100, "no device". Needs gcc and binutils.
"""
import collections
import pathlib
import re
import subprocess
import sys
import tempfile

MISSING = re.compile(r"lib(cu|nccl|nvrtc|nvshmem|nvtx|nvJit)")
DRIVER = "libcuda.so.1"  # torch loads it only where there is one


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def wanted(folder):
    """{library: {version, "" for none: symbols}}, of all that the libraries in the folder want of such that are missing."""
    stubs, version_of, undefined, defined = collections.defaultdict(lambda: collections.defaultdict(set)), {}, set(), set()
    for library in sorted(folder.glob("*.so")):
        private = output("objdump", "-p", library)
        for name in re.findall(r"NEEDED +(\S+)", private):
            if MISSING.match(name) and name != DRIVER:
                stubs[name]  # even where nothing of it is used
        for name, block in re.findall(r"required from (\S+):\n((?:\s+0x.*\n)*)", private):
            version_of.update((version, name) for version in re.findall(r"0x\w+ 0x\w+ \d+ (\S+)", block))
        for kind, symbol in re.findall(r" ([A-Za-z]) (\S+)$", output("nm", "-D", "--with-symbol-versions", library), re.M):
            if kind == "U":
                undefined.add(symbol)
            else:
                defined.add(symbol.partition("@")[0])
    unversioned = {symbol for symbol in undefined if "@" not in symbol} - defined
    for symbol, version in (symbol.split("@") for symbol in undefined - unversioned if "@" in symbol):
        if version_of.get(version) in stubs:
            stubs[version_of[version]][version].add(symbol)
    # Which of the libraries has the others is not said: any will do. Python's own are in the interpreter.
    stubs[min(stubs)][""] |= {symbol for symbol in unversioned if not symbol.startswith(("Py", "_Py"))}
    return stubs


def build(path, versions):
    with tempfile.TemporaryDirectory() as folder:
        source, script = pathlib.Path(folder, "stub.c"), pathlib.Path(folder, "versions")
        source.write_text("".join(f"long {symbol}(void) {{ return 100; }}\n" for symbol in sorted(set().union(*versions.values()))))
        script.write_text("".join(f"{version} {{ global: {'; '.join(sorted(symbols))}; }};\n" for version, symbols in sorted(versions.items()) if version))
        with_versions = [f"-Wl,--version-script={script}"] if script.stat().st_size else []
        subprocess.run(["gcc", "-w", "-shared", "-fPIC", "-fno-builtin", f"-Wl,-soname,{path.name}", *with_versions, "-o", path, source], check=True)


def main():
    folder = pathlib.Path(sys.argv[1])
    for name in folder.glob("*.so.*"):
        if MISSING.match(name.name):
            name.unlink()  # of an earlier run
    for name, versions in wanted(folder).items():
        build(folder / name, versions)


if __name__ == "__main__":
    main()
