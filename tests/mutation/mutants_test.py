#!/usr/bin/env python3
"""Tests of mutants.py: what it finds, and that the switch does what the change does."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import mutants  # noqa: E402

ROOT = HERE.parents[1]

# Every kind of change, and tests that see each of them.
SAMPLE = r"""
#include <algorithm>
#include <vector>

#include "gtest/gtest.h"

namespace {
constexpr int kTwo = 2;

int Sum(const std::vector<int>& values) {
  int sum = 0;
  for (int value : values) sum += value;
  return sum;
}
bool Between(int x, int low, int high) { return x >= low && x < high; }
int Clamp(int x) { return std::max(std::min(x, 9), -9); }
const char* Size(int x) { return x > 5 ? "big" : x < 0 ? "minus" : "small"; }
int FirstOdd(const std::vector<int>& values) {
  for (int value : values) {
    if (value % kTwo == 0) continue;
    return value;
  }
  return -1;
}
bool Odd(int x) {
  const auto even = [](int y) -> bool {
    return y % 2 == 0;
  };
  return !even(x);
}
}  // namespace

TEST(Sample, Numbers) {
  EXPECT_EQ(Sum({1, 2, 3}), 6);
  EXPECT_EQ(Sum({}), 0);
  EXPECT_TRUE(Between(2, 2, 4) && Between(3, 2, 4) && !Between(4, 2, 4) && !Between(1, 2, 4));
  EXPECT_TRUE(Clamp(11) == 9 && Clamp(-11) == -9 && Clamp(5) == 5 && Clamp(9) == 9);
}
TEST(Sample, Words) {
  EXPECT_STREQ(Size(6), "big");
  EXPECT_STREQ(Size(5), "small");
  EXPECT_STREQ(Size(0), "small");
  EXPECT_STREQ(Size(-1), "minus");
  EXPECT_EQ(FirstOdd({2, 4, 7, 9}), 7);
  EXPECT_EQ(FirstOdd({2, 4}), -1);
  EXPECT_TRUE(Odd(3) && !Odd(4));
}
"""


def find(code):
    return [str(mutant).split("    ")[0] for mutant in mutants.find("a.cc", code)]


class FindTest(unittest.TestCase):
    def changes(self, code):
        return [mutant.change for mutant in mutants.find("a.cc", code)]

    def test_binary_operators_have_spaces_on_both_sides(self):
        self.assertEqual(self.changes("int* F(T& x, U&& y) { return a + b; }"), ["+ → -"])
        self.assertEqual(self.changes("bool B = std::less<int>()(a, b) ^ F<T, U>(c);"), ["^ → &"])
        self.assertEqual(self.changes("int x = -y;"), [])

    def test_comparisons_have_a_neighbour_and_an_opposite(self):
        self.assertEqual(self.changes("bool b = x < y;"), ["< → <=", "< → >="])

    def test_each_side_of_a_condition_is_dropped(self):
        self.assertEqual(self.changes("bool b = x && F(y, z) && w;"),
                         ["x → true", "F(y, z) → true", "w → true"])
        self.assertEqual(self.changes("bool b = x || y;"), ["x → false", "y → false"])

    def test_conditions_hold_always_and_never(self):
        self.assertEqual(self.changes("void F() { if (x) { y(); } }"),
                         ["x → false", "x → true", "y(); removed"])
        self.assertEqual(self.changes("int v = a(b) ? c : d;"), ["a(b) → false", "a(b) → true"])
        self.assertEqual(self.changes("void F() { while (x) ++y; }"), ["x → false", "++y; removed"])

    def test_an_if_that_declares_is_no_condition(self):
        self.assertEqual(self.changes("void F() { if (const auto x = G()) y(); }"), ["y(); removed"])
        self.assertEqual(self.changes("void F() { if (T x = G(); h) y(); }"),
                         ["h → false", "h → true", "y(); removed"])

    def test_declarations_are_no_statements(self):
        for code in ("T x = F();", "T* x = F();", "T& x = F();", "const T x(1 + F);", "a::b<c> x(d);",
                     "using x = y;", "auto [a, b] = c;"):
            self.assertNotIn("removed", " ".join(self.changes(f"void F() {{ {code} }}")), code)
        self.assertEqual(self.changes("class C { void F(); T x = y; };"), [])

    def test_statements_are_removed_wherever_they_stand(self):
        code = """void F() {
  if (x)
    a(1.5);
  else
    b->c = d;
  for (T t : u) e[0] += f;
  g([&](T t) { h(t); });
  std::sort(begin, end);
}"""
        removed = [change for change in self.changes(code) if change.endswith("removed")]
        self.assertEqual(removed, [
            "a(1.5); removed", "b->c = d; removed", "e[0] += f; removed",
            "g([&](T t) { h(t); }); removed", "h(t); removed", "std::sort(begin, end); removed"])

    def test_only_a_return_that_an_if_guards_is_removed(self):
        self.assertIn("return 1; removed", self.changes("int F() { if (x) return 1; return 2; }"))
        self.assertNotIn("return 2; removed",
                         self.changes("int F() { if (x) return 1; return 2; }"))

    def test_numbers_change_by_one(self):
        self.assertEqual(self.changes("F(0, 1, 2u, 0x1f, 0.5, 1e-3f, 'x', \"1\", R\"(2)\");"),
                         ["0 → 1", "1 → 0", "2u → 3u", "0x1f → 32", "0.5 → 1.5",
                          "1e-3f → 1.001f"])

    def test_comments_strings_and_directives_are_left_alone(self):
        self.assertEqual(self.changes('#define A(x) (x + 1)\n// a + b\n/* c + d */ F("e + f");'), [])

    def test_checks_and_reservations_are_left_alone(self):
        self.assertEqual(
            self.changes("void F() { v.reserve(n + 1);\n FORESHOCK_CHECK(n > 0);\n }"), [])

    def test_a_mutant_says_where_it_is(self):
        self.assertEqual(find("int x;\nint y = a - b;"), ["a.cc:2: - → +"])


class SwitchTest(unittest.TestCase):
    """Each change of the sample, by itself and behind the switch, has the same effect: it is seen."""

    def compile(self, code, folder):
        source, program = pathlib.Path(folder, "a.cc"), pathlib.Path(folder, "a")
        source.write_text(code)
        done = subprocess.run(
            ["c++", "-std=c++20", "-w", f"-I{ROOT}", "-include", str(HERE / "mutant.h"),
             str(source), str(HERE / "mutant.cc"), "-o", str(program), "-lgtest_main", "-lgtest",
             "-pthread"], capture_output=True, text=True)
        return program if done.returncode == 0 else done.stderr

    def test_the_switch(self):
        with tempfile.TemporaryDirectory() as folder:
            found = mutants.find("a.cc", SAMPLE.split("TEST")[0])
            switched = [mutant for mutant in found if "kTwo = 2" not in mutant.code]
            self.assertGreater(len(switched), 30)
            for number, mutant in enumerate(switched, 1):
                mutant.number = number
            program = self.compile(mutants.instrument(SAMPLE, found), folder)
            self.assertIsInstance(program, pathlib.Path, program)

            def passes(number, **more):
                return subprocess.run([str(program)], timeout=60, capture_output=True, env={
                    "FORESHOCK_MUTANT": str(number), **more}).returncode == 0

            reached = pathlib.Path(folder, "reached")
            self.assertTrue(passes(0, FORESHOCK_MUTANTS_REACHED=str(reached)))
            lines = [line.split() for line in reached.read_text().splitlines()]
            self.assertEqual([line[0] for line in lines], ["Sample.Numbers", "Sample.Words"])
            self.assertEqual({int(number) for line in lines for number in line[2:]},
                             {mutant.number for mutant in switched})
            survivors = [str(mutant) for mutant in switched if passes(mutant.number)]
            self.assertEqual(survivors, [])

    def test_a_change_by_itself(self):
        with tempfile.TemporaryDirectory() as folder:
            found = mutants.find("a.cc", SAMPLE.split("TEST")[0])
            for mutant in [mutant for mutant in found if "kTwo" in mutant.code][:1] + found[-1:]:
                program = self.compile(mutant.apply(SAMPLE), folder)
                self.assertIsInstance(program, pathlib.Path, program)
                done = subprocess.run([str(program)], timeout=60, capture_output=True)
                self.assertNotEqual(done.returncode, 0, mutant)


if __name__ == "__main__":
    unittest.main()
