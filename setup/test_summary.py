"""Prints what ctest skipped, and why, from its JUnit report: test_summary.py REPORT."""

import re
import sys
import xml.etree.ElementTree

cases = xml.etree.ElementTree.parse(sys.argv[1]).getroot().findall("testcase")
skipped = [case for case in cases if case.find("skipped") is not None]
print(f"{len(cases)} tests, {len(skipped)} skipped in whole or in part" + (":" if skipped else ""))
for case in skipped:
    output = case.findtext("system-out") or ""
    reasons = re.findall(r"^.*\bskipped\b.*$", output, re.MULTILINE) or [case.find("skipped").get("message", "")]
    for reason in reasons:
        print(f"  {case.get('name')}: {reason.strip()}")
