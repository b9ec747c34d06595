"""Counts the cases of a test run and prints "N passed, N failed" as the last line.

usage: summary.py RESULTS   with ctest.xml, one gtest JSON report per unit test program, and pytest.xml in it

A case that was skipped counts as neither. A program without a report of its own (the replay of a fuzz corpus) is one
case. A program that crashed, hung, or failed outside of any case (a sanitizer report at exit, say) is one failure.
"""

import json
import pathlib
import sys
import xml.etree.ElementTree as ET


def gtest_cases(report):
    """(passed, names of failures) of one gtest JSON report."""
    passed, failed = 0, []
    for suite in json.loads(report.read_text())["testsuites"]:
        for case in suite["testsuite"]:
            if case["status"] != "RUN" or case["result"] == "SKIPPED":
                continue
            if case.get("failures"):
                failed.append(f"{suite['name']}.{case['name']}")
            else:
                passed += 1
    return passed, failed


def unit_tests(results):
    passed, failed = 0, []
    listing = results / "ctest.xml"
    if not listing.exists():
        return 0, ["ctest did not run"]
    for program in ET.parse(listing).getroot().iter("testcase"):
        name = program.get("name")
        ok = program.get("status") == "run"
        report = results / f"{name}_test.json"
        bad = []
        if report.exists():
            good, bad = gtest_cases(report)
            passed += good
        elif ok:
            passed += 1
        if not ok and not bad:
            bad = [f"{name}: failed outside of its cases"]
        failed += bad
    return passed, failed


def python_tests(results):
    passed, failed = 0, []
    listing = results / "pytest.xml"
    if not listing.exists():
        return 0, ["pytest did not run"]
    for case in ET.parse(listing).getroot().iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        if case.find("failure") is not None or case.find("error") is not None:
            failed.append(name)
        elif case.find("skipped") is None:
            passed += 1
    return passed, failed


def main():
    results = pathlib.Path(sys.argv[1])
    unit_passed, unit_failed = unit_tests(results)
    python_passed, python_failed = python_tests(results)
    for name in unit_failed + python_failed:
        print(f"FAILED {name}")
    failed = len(unit_failed) + len(python_failed)
    print(f"{unit_passed + python_passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


main()
