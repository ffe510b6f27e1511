"""Releases are built so that misused memory ends a program early: position-independent, with full RELRO, stack
protector and fortified calls."""

import os
import subprocess
import unittest

PROGRAMS = [os.environ["ISOCOST_PROGRAM"], os.environ["ISOCOST_MODULE"]]


def readelf(option, file):
    return subprocess.run(["readelf", "-W", option, file], check=True, capture_output=True, text=True).stdout


class Hardening(unittest.TestCase):
    def test_programs_and_the_python_module_are_hardened(self):
        for file in PROGRAMS:
            with self.subTest(file=file):
                self.assertIn("DYN", readelf("-h", file))
                self.assertIn("GNU_RELRO", readelf("-l", file))
                self.assertIn("NOW", readelf("-d", file))
                symbols = readelf("--dyn-syms", file)
                self.assertIn("__stack_chk_fail", symbols)
                self.assertRegex(symbols, r"__(memcpy|snprintf|vsnprintf|read|fread|recv)_chk")


if __name__ == "__main__":
    unittest.main()
