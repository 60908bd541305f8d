#!/usr/bin/env python3
"""The lint finds what it is there for, and nothing else."""

import pathlib
import shutil
import tempfile
import textwrap
import unittest

import functions
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


    def test_a_header_that_a_macro_names_is_a_finding(self):
        for line, count in [("#include NAME", 1), ("# include HEADER(a)", 1),
                            ('#include "daemon/base/log.h"', 0), ("#include <vector>", 0)]:
            self.assertEqual(len(list(lint.check_macro_includes("daemon/a/b.cc", [line]))), count,
                             line)


class Links(unittest.TestCase):

    def links(self, name, text):
        folders = ["daemon/base", "daemon/model", "daemon/store", "daemon/rules", "daemon/query",
                   "client/cpp", "client/cli"]
        cmake = {f"{folder}/CMakeLists.txt": f"foreshock_library({folder.split('/')[1]} SOURCES a.cc)"
                 for folder in folders}
        cmake["client/cpp/CMakeLists.txt"] = "foreshock_library(client SOURCES a.cc)"
        cmake["client/cli/CMakeLists.txt"] += "foreshock_library(cli_text SOURCES a.cc)"
        cmake["daemon/rules/CMakeLists.txt"] += "add_library(foreshock_rules_proto STATIC a.cc)"
        cmake["tests/support/CMakeLists.txt"] = "foreshock_library(test_support SOURCES a.cc)"
        cmake[name] = cmake.get(name, "") + text
        return list(lint.check_links(cmake))

    def test_links_downward_are_allowed(self):
        for name, text in [
                ("daemon/rules/CMakeLists.txt",
                 "target_link_libraries(foreshock_rules PUBLIC foreshock::model foreshock_rules_proto)"),
                ("daemon/query/CMakeLists.txt",
                 "foreshock_library(query2 SOURCES a.cc PUBLIC foreshock::store absl::time)"),
                ("daemon/rules/CMakeLists.txt", "# target_link_libraries(a foreshock::query)"),
                ("proxy/CMakeLists.txt", "foreshock_executable(p LINK foreshock::cli_text)"),
                ("tests/unit/CMakeLists.txt", "foreshock_test(a LINK foreshock::query)"),
        ]:
            self.assertEqual(self.links(name, text), [], text)

    def test_links_upward_and_sideways_are_findings(self):
        for name, text in [
                ("daemon/model/CMakeLists.txt",
                 "target_link_libraries(foreshock_model PUBLIC foreshock::store)"),
                ("daemon/model/CMakeLists.txt",
                 "target_link_libraries(foreshock_model PUBLIC foreshock_store)"),
                ("daemon/rules/CMakeLists.txt",
                 "foreshock_library(r SOURCES a.cc\n  PRIVATE foreshock::query)"),
                ("daemon/store/CMakeLists.txt",
                 "target_link_libraries(foreshock_store PRIVATE foreshock_rules_proto)"),
                ("daemon/store/CMakeLists.txt",
                 "target_link_libraries(foreshock_store PRIVATE foreshock::test_support)"),
                ("client/cpp/CMakeLists.txt",
                 "target_link_libraries(foreshock_client PRIVATE foreshock::store)"),
                ("proxy/CMakeLists.txt", "foreshock_executable(p LINK foreshock::cli)"),
        ]:
            self.assertEqual(len(self.links(name, text)), 1, text)


class Namespaces(unittest.TestCase):

    def findings(self, name, *lines):
        return list(lint.check_namespaces(name, list(lines)))

    def test_the_folders_own_is_allowed(self):
        for name, space in [
                ("daemon/rules/rule.h", "foreshock::rules"),
                ("daemon/http/routes.cc", "foreshock::http::internal"),
                ("daemon/main.cc", "foreshock::app"),
                ("client/cli/say.h", "foreshock::cli"),
                ("client/cpp/include/foreshock/client.h", "foreshock"),
                ("client/cpp/src/client.cc", "foreshock"),
                ("client/cpp/src/sender.h", "foreshock::client_internal"),
                ("proxy/cli.cc", "foreshock::proxy"),
                ("tests/unit/rules/rule_test.cc", "foreshock::rules"),
                ("tests/unit/client/split_test.cc", "foreshock::client_internal"),
                ("tests/support/temp_dir.h", "foreshock::support"),
                ("tests/fault/store_child.cc", "foreshock::fault"),
        ]:
            self.assertEqual(self.findings(name, f"namespace {space} {{", "class A {", "};",
                                           f"}}  // namespace {space}"), [], f"{name} {space}")

    def test_the_bare_one_and_those_of_others_are_findings(self):
        for name, space in [
                ("daemon/rules/rule.h", "foreshock"),
                ("daemon/rules/rule.cc", "foreshock"),
                ("daemon/rules/rule.h", "foreshock::store"),
                ("daemon/rules/rule.h", "foreshock::rules_internal"),
                ("daemon/rules/rule.h", "rules"),
                ("client/cpp/src/sender.h", "foreshock"),
                ("client/cpp/include/foreshock/client.h", "foreshock::client"),
                ("tests/unit/rules/rule_test.cc", "foreshock"),
                ("tests/fault/store_child.cc", "foreshock::store"),
        ]:
            for inside in ["class A {};", "int F();", "inline constexpr int kA = 1;"]:
                self.assertEqual(len(self.findings(name, f"namespace {space} {{", inside,
                                                   f"}}  // namespace {space}")), 1, f"{name} {space}")

    def test_forward_declarations_of_others_and_inner_namespaces_are_none(self):
        self.assertEqual(self.findings("daemon/rules/rate_limit.h", "namespace foreshock::base {",
                                       "class Archive;", "}  // namespace foreshock::base"), [])
        self.assertEqual(self.findings("daemon/rules/rate_limit.h", "namespace foreshock::rules {",
                                       "namespace detail {", "int F();", "}  // namespace detail",
                                       "}  // namespace foreshock::rules"), [])
        self.assertEqual(len(self.findings("daemon/rules/rate_limit.h", "namespace foreshock {",
                                           "class Archive;", "}  // namespace foreshock")), 1)


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


class OneWay(unittest.TestCase):

    def test_a_second_way_is_a_finding_where_the_one_way_does_not_lie(self):
        for line, home in [("std::string_view key;", None),
                           ("std::chrono::steady_clock::now()", "daemon/base/clock.h"),
                           ("static_cast<grpc::StatusCode>(1)", "daemon/security/grpc_status.h")]:
            self.assertEqual(len(list(lint.check_one_way("daemon/a/b.cc", [line]))), 1, line)
            self.assertEqual(list(lint.check_one_way("tests/a.cc", [line])), [])
            if home:
                self.assertEqual(list(lint.check_one_way(home, [line])), [])


class Lengths(unittest.TestCase):

    def found(self, text):
        return [tuple(one) for one in functions.in_cpp(textwrap.dedent(text).lstrip("\n"))]

    def test_cpp_functions_are_found_with_name_and_lines(self):
        self.assertEqual(self.found("""
            namespace a {
            namespace {

            int Add(int a, int b) { return a + b; }

            template <typename T>
            absl::StatusOr<T> Foo::Bar(const std::string& long_name_of_a_parameter,
                                       absl::Span<const T> values) const {
              if (values.empty()) {
                return T{};
              }
              return Take([&](const T& value) {
                return value;
              });
            }

            Foo::Foo(int n)
                : n_{n}, list_{1, 2},
                  text_("} // {") {
              Start();
            }

            }  // namespace
            class Inner final : public Base {
             public:
              explicit Inner(int n) : n_(n) {
                ++n_;
              }
              struct Part {
                bool operator()(int a) const {
                  return a == '{' || a > 1'000;
                }
              };
             private:
              int n_ = {};
            };

            const Row kRows[] = {
                {1, "a("},
                {2, Make("b")},
            };

            TEST_F(SuiteTest, Name) {
              EXPECT_EQ(R"({
            }
            )", text);
            }

            extern "C" int Fuzz(const uint8_t* data) {
              return 0;
            }
            }  // namespace a
            """), [
                (7, "Foo::Bar", 9), (17, "Foo::Foo", 5), (26, "Inner", 3), (30, "operator()", 3),
                (43, "SuiteTest.Name", 5), (49, "Fuzz", 3)])

    def test_python_functions_are_found_inside_of_others_too(self):
        self.assertEqual([tuple(one) for one in functions.in_python(
            "class A:\n  def f(self):\n    def g():\n      pass\n    return g\n")],
            [(2, "f", 4), (3, "g", 2)])

    def test_a_long_function_is_a_finding_unless_it_is_listed_and_no_longer_than_that(self):
        short, long = functions.Function(1, "f", 80), functions.Function(1, "f", 90)
        count = lambda found, allowed: len(list(lint.check_lengths({"a.cc": [found]}, allowed)))  # noqa: E731
        self.assertEqual(count(short, {}), 0)
        self.assertEqual(count(long, {}), 1)
        self.assertEqual(count(long, {("a.cc", "f"): 90}), 0)
        self.assertEqual(count(long, {("a.cc", "f"): 89}), 1)
        self.assertEqual(count(short, {("a.cc", "f"): 90}), 1)  # an entry that is not needed
        self.assertEqual(count(short, {("gone.cc", "f"): 90}), 1)

    def test_the_list_of_long_functions_is_read(self):
        self.assertEqual(lint.read_long_functions("# why\n\na.cc A::B 90\n"), {("a.cc", "A::B"): 90})


class Page(unittest.TestCase):

    def findings(self, imports):
        """`imports`: {file: [module]} below the page's folder."""
        return list(lint.check_web({
            f"{lint.WEB}/{name}": {"imports": [[1, module] for module in modules], "functions": []}
            for name, modules in imports.items()}))

    def test_imports_go_down_and_never_in_a_circle(self):
        good = {"main.ts": ["./views/run/view", "./base/api"], "base/api.ts": ["./url", "chart.js"],
                "base/url.ts": [], "views/run/view.ts": ["./state", "../../base/api"],
                "views/run/state.ts": []}
        self.assertEqual(self.findings(good), [])
        for name, module, words in [
                ("base/url.ts", "./api", "url.ts -> "),
                ("base/url.ts", "../views/run/state", "base may import"),
                ("views/run/state.ts", "../../main", "views/run may import"),
        ]:
            bad = {**good, name: [*good[name], module]}
            self.assertTrue(any(words in one for one in self.findings(bad)), (name, module))

    def test_one_view_does_not_import_another(self):
        self.assertEqual(len(self.findings({
            "main.ts": ["./views/a/view", "./views/b/view"], "views/a/view.ts": [],
            "views/b/view.ts": ["../a/view"]})), 1)

    def test_a_file_that_nothing_imports_is_a_finding(self):
        self.assertEqual(len(self.findings({"main.ts": [], "base/old.ts": []})), 1)

    @unittest.skipUnless(shutil.which("node"), "node is not installed")
    def test_typescript_is_read_by_its_own_parser(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "a.ts"
            path.write_text("import type {A} from './b';\nclass C {\n  m(): void {\n  }\n}\n"
                            "const f = (a: A) => {\n  return () => 1;\n};\n")
            found = lint.read_typescript([str(path)])[str(path)]
        self.assertEqual(found, {"imports": [[1, "./b"]],
                                 "functions": [[3, "m", 2], [6, "f", 3], [7, "a function", 1]]})


if __name__ == "__main__":
    unittest.main()
