#!/usr/bin/env python3
"""The lint finds what it is there for, and nothing else."""

import unittest

import lint


class IncludeArrows(unittest.TestCase):

    def reason(self, name, include):
        return list(lint.check_includes(name, [f"#include {include}"]))

    def test_lower_level_and_own_folder_are_allowed(self):
        for name, include in [
                ("daemon/rules/evaluator.cc", '"daemon/model/step.h"'),
                ("daemon/rules/evaluator.cc", '"daemon/rules/rule_set.h"'),
                ("daemon/store/rocks.cc", "<rocksdb/db.h>"),
                ("daemon/model/step.h", '"foreshock/v1/types.pb.h"'),
                ("daemon/main.cc", '"daemon/app/app.h"'),
                ("client/cli/verb_rules.cc", '"daemon/rules/rule_set.h"'),
                ("tests/unit/store/store_test.cc", '"daemon/store/store.h"'),
                ("proxy/cli.cc", '"client/cli/table.h"'),
                ("proxy/model.cc", '"daemon/base/status_macros.h"'),
        ]:
            self.assertEqual(self.reason(name, include), [], f"{name} {include}")

    def test_sideways_and_upward_are_findings(self):
        for name, include in [
                ("daemon/store/store.cc", '"daemon/merge/open_steps.h"'),
                ("daemon/model/step.h", '"daemon/store/store.h"'),
                ("daemon/base/log.h", '"client/cli/terminal.h"'),
                ("client/cpp/src/client.cc", '"daemon/store/store.h"'),
                ("proxy/cli.cc", '"client/cli/format.h"'),
                ("proxy/model.cc", '"daemon/model/step.h"'),
                ("daemon/app/app.cc", '"proxy/model.h"'),
                ("client/cli/table.cc", '"proxy/model.h"'),
                ("daemon/unheard_of/a.cc", '"daemon/base/log.h"'),
                ("daemon/app/app.cc", '"daemon/unheard_of/a.h"'),
        ]:
            self.assertEqual(len(self.reason(name, include)), 1, f"{name} {include}")

    def test_libraries_stay_with_their_owner(self):
        for name, include in [
                ("daemon/rules/rule_set.cc", "<yaml-cpp/yaml.h>"),
                ("daemon/pipeline/pipeline.cc", '"rocksdb/db.h"'),
                ("client/cpp/src/client.cc", "<httplib.h>"),
        ]:
            self.assertEqual(len(self.reason(name, include)), 1, f"{name} {include}")


class Printing(unittest.TestCase):

    def test_what_prints_beside_say_is_a_finding(self):
        for name, line, count in [
                ("client/cli/verb_runs.cc", 'std::printf("%s", name);', 1),
                ("client/cli/verb_runs.cc", 'std::fputs(text, stdout);', 1),
                ("proxy/report.cc", "std::cout << name;", 1),
                ("client/cli/verb_runs.cc", 'Say("%s", name);  // as printf() would', 0),
                ("client/cli/say.cc", "std::fwrite(bytes.data(), 1, n, stream);", 0),
                ("daemon/main.cc", 'std::printf("%s", name);', 0),
        ]:
            self.assertEqual(len(list(lint.check_says(name, [line]))), count, f"{name} {line}")


class Words(unittest.TestCase):

    def test_notes_to_self_and_long_lines_are_findings(self):
        for line in ["// TO" + "DO: later", "// see /ho" + "me/me/x", "x" * 101]:
            self.assertEqual(len(list(lint.check_words("daemon/a/b.cc", [line]))), 1, line)

    def test_plain_lines_and_tables_kept_by_hand_are_none(self):
        self.assertEqual(list(lint.check_words("daemon/a/b.cc", ["x" * 100])), [])
        for first, last in [("// clang-format off", "// clang-format on"), ('Parse(R"(', ')");')]:
            lines = [first, "x" * 140, last]
            self.assertEqual(list(lint.check_words("daemon/a/b.cc", lines)), [])
            self.assertEqual(len(list(lint.check_words("daemon/a/b.cc", [*lines, "x" * 140]))), 1)


class Clocks(unittest.TestCase):

    def test_waits_by_the_time_of_day_are_findings(self):
        for line in ["const absl::Time end = absl::Now() + timeout;",
                     "while (absl::Now() < end) {", "return deadline - absl::Now();"]:
            self.assertEqual(len(list(lint.check_waits("daemon/a/b.cc", [line]))), 1, line)
            self.assertEqual(list(lint.check_waits("tests/a.cc", [line])), [])

    def test_ages_and_steady_waits_are_none(self):
        for line in ["const absl::Duration age = absl::Now() - absl::FromUnixNanos(started);",
                     "const absl::Time end = SteadyNow() + timeout;"]:
            self.assertEqual(list(lint.check_waits("daemon/a/b.cc", [line])), [], line)


if __name__ == "__main__":
    unittest.main()
