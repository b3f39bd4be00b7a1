#!/usr/bin/env python3
"""Prints how many tests passed, failed and were skipped in a run of ctest: those of each suite from its own report,
every other entry as one.
usage: python3 tests/count.py JUNIT_OF_CTEST FOLDER_OF_REPORTS
"""
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path


def main():
    passed = failed = skipped = 0
    for entry in ElementTree.parse(sys.argv[1]).getroot().iter("testcase"):
        report = Path(sys.argv[2]) / f"{entry.get('name').replace('/', '.')}.xml"
        status, reason = entry.get("status"), entry.find("skipped")
        is_left_out = status == "disabled" or (
            status == "notrun" and reason is not None and reason.get("message", "").startswith("SKIP_"))
        is_bad = status != "run" and not is_left_out  # it failed, or its program is missing
        if not report.exists():  # no suite, or one that crashed
            passed, failed, skipped = passed + (status == "run"), failed + is_bad, skipped + is_left_out
            continue
        counts = [0, 0, 0]
        for suite in ElementTree.parse(report).getroot().iter("testsuite"):
            for i, names in enumerate((["tests"], ["failures", "errors"], ["skipped", "disabled"])):
                counts[i] += sum(int(suite.get(name, 0)) for name in names)
        tests, bad, left_out = counts
        bad = max(bad, int(is_bad))
        passed, failed, skipped = passed + tests - bad - left_out, failed + bad, skipped + left_out
    print(passed, failed, skipped)


if __name__ == "__main__":
    main()
