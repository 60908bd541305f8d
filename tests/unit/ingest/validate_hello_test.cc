#include <functional>
#include <string>
#include <vector>

#include "daemon/ingest/validate.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/support/wire_messages.h"

namespace foreshock::ingest {
namespace {

using ::foreshock::support::GoodGoodbye;
using ::foreshock::support::GoodHello;

struct BadHello {
  const char* name;
  std::function<void(v1::Hello*)> spoil;
  std::string message;
};

TEST(ValidateHelloTest, AcceptsAFullAndALeastHello) {
  EXPECT_OK(ValidateHello(GoodHello()));
  v1::Hello least;
  least.set_run("r");
  least.set_launch_id("l");
  least.set_client_instance("c");
  least.set_world_size(1);
  EXPECT_OK(ValidateHello(least));
}

TEST(ValidateHelloTest, AcceptsTheLimitsThemselves) {
  v1::Hello hello = GoodHello();
  hello.set_run(std::string(256, 'r'));
  hello.set_launch_id(std::string(256, 'l'));
  hello.set_client_instance(std::string(128, 'c'));
  hello.set_world_size(1u << 20);
  hello.set_rank((1u << 20) - 1);
  hello.set_parent_attempt(1);
  hello.set_resume_step(0);
  hello.mutable_labels()->clear();
  for (int i = 0; i < 32; ++i) {
    (*hello.mutable_labels())["k" + std::to_string(100 + i)] = std::string(124, 'v');
  }
  EXPECT_OK(ValidateHello(hello));
}

TEST(ValidateHelloTest, AcceptsNamesInAnyScript) {
  v1::Hello hello = GoodHello();
  hello.set_run("Vorhersage-\xc3\xa4-\xe6\x9c\x9d-\xf0\x9f\x8c\x8b");
  EXPECT_OK(ValidateHello(hello));
}

TEST(ValidateHelloTest, KeepsPlanEntriesAndKindsOfANewerSender) {
  v1::Hello hello = GoodHello();
  hello.mutable_plan(0)->set_kind(static_cast<v1::SummaryKind>(77));
  hello.mutable_model()->set_attention(static_cast<v1::AttentionKind>(77));
  EXPECT_OK(ValidateHello(hello));
}

TEST(ValidateHelloTest, SaysWhereWhatAndWhatIsAllowed) {
  const std::vector<BadHello> cases = {
      {"no run", [](v1::Hello* h) { h->clear_run(); },
       "hello: run: found 0 bytes; allowed 1..256 bytes"},
      {"long run", [](v1::Hello* h) { h->set_run(std::string(257, 'r')); },
       "hello: run: found 257 bytes; allowed 1..256 bytes"},
      {"control character", [](v1::Hello* h) { h->set_run("a\nb"); },
       "hello: run: found \"a\\nb\", bad at byte 1; allowed UTF-8 without control characters"},
      {"C1 control", [](v1::Hello* h) { h->set_run("a\xc2\x85"); },
       "hello: run: found \"a\\xc2\\x85\", bad at byte 1; allowed UTF-8 without control "
       "characters"},
      {"surrogate", [](v1::Hello* h) { h->set_run("\xed\xa0\x80"); },
       "hello: run: found \"\\xed\\xa0\\x80\", bad at byte 0; allowed UTF-8 without control "
       "characters"},
      {"over-long", [](v1::Hello* h) { h->set_run("ab\xc0\x80"); },
       "hello: run: found \"ab\\xc0\\x80\", bad at byte 2; allowed UTF-8 without control "
       "characters"},
      {"cut character", [](v1::Hello* h) { h->set_run("ab\xe6\x9c"); },
       "hello: run: found \"ab\\xe6\\x9c\", bad at byte 2; allowed UTF-8 without control "
       "characters"},
      {"no launch", [](v1::Hello* h) { h->clear_launch_id(); },
       "hello: launch_id: found 0 bytes; allowed 1..256 bytes"},
      {"no instance", [](v1::Hello* h) { h->clear_client_instance(); },
       "hello: client_instance: found 0 bytes; allowed 1..128 bytes"},
      {"long version", [](v1::Hello* h) { h->set_client_version(std::string(129, 'v')); },
       "hello: client_version: found 129 bytes; allowed 0..128 bytes"},
      {"no world", [](v1::Hello* h) { h->set_world_size(0); },
       "hello: world_size: found 0; allowed 1..1048576"},
      {"huge world", [](v1::Hello* h) { h->set_world_size((1u << 20) + 1); },
       "hello: world_size: found 1048577; allowed 1..1048576"},
      {"rank outside", [](v1::Hello* h) { h->set_rank(4); },
       "hello: rank: found 4; allowed 0..3 (below world_size)"},
      {"coordinate outside", [](v1::Hello* h) { h->mutable_coordinates()->set_pipeline(4); },
       "hello: coordinates.pipeline: found 4; allowed 0..3"},
      {"huge head_dim", [](v1::Hello* h) { h->mutable_model()->set_head_dim(1025); },
       "hello: model.head_dim: found 1025; allowed 0..1024"},
      {"more key heads", [](v1::Hello* h) { h->mutable_model()->set_kv_heads(5); },
       "hello: model.kv_heads: found 5; allowed 0..4 (heads)"},
      {"top_k over experts", [](v1::Hello* h) { h->mutable_model()->set_top_k(5); },
       "hello: model.top_k: found 5; allowed 0..4 (experts)"},
      {"plan without kind", [](v1::Hello* h) { h->mutable_plan(0)->clear_kind(); },
       "hello: plan[0].kind: found SUMMARY_KIND_UNSPECIFIED; allowed a kind of summary"},
      {"plan without cadence", [](v1::Hello* h) { h->mutable_plan(0)->set_every_steps(0); },
       "hello: plan[0].every_steps: found 0; allowed 1 or more"},
      {"phase outside", [](v1::Hello* h) { h->mutable_plan(0)->set_phase_step(10); },
       "hello: plan[0].phase_step: found 10; allowed 0..9 (below every_steps)"},
      {"plan of no layer", [](v1::Hello* h) { h->mutable_plan(0)->set_layers(0, 4); },
       "hello: plan[0].layers[0]: found 4; allowed 0..3 (model.layers of the Hello)"},
      {"plan too long",
       [](v1::Hello* h) {
         for (int i = 0; i < 1024; ++i) *h->add_plan() = h->plan(0);
       },
       "hello: plan: found 1025 entries; allowed at most 1024"},
      {"attempt zero", [](v1::Hello* h) { h->set_parent_attempt(0); },
       "hello: parent_attempt: found 0; allowed 1 or more, or absent"},
      {"negative resume", [](v1::Hello* h) { h->set_resume_step(-1); },
       "hello: resume_step: found -1; allowed 0..2^53, or absent"},
      {"many labels",
       [](v1::Hello* h) {
         for (int i = 0; i < 32; ++i) (*h->mutable_labels())["k" + std::to_string(i)] = "v";
       },
       "hello: labels: found 33 labels; allowed at most 32"},
      {"label bytes", [](v1::Hello* h) { (*h->mutable_labels())["k"] = std::string(4096, 'v'); },
       "hello: labels: found 4112 bytes together; allowed at most 4096"},
      {"label without key", [](v1::Hello* h) { (*h->mutable_labels())[""] = "v"; },
       "hello: labels.key: found 0 bytes; allowed 1..4096 bytes"},
  };
  for (const BadHello& bad : cases) {
    v1::Hello hello = GoodHello();
    bad.spoil(&hello);
    EXPECT_THAT(ValidateHello(hello),
                support::StatusIs(absl::StatusCode::kInvalidArgument, bad.message))
        << bad.name;
  }
}

TEST(ValidateGoodbyeTest, WantsAnOutcomeAndBoundedText) {
  EXPECT_OK(ValidateGoodbye(GoodGoodbye()));
  v1::Goodbye goodbye;
  EXPECT_THAT(ValidateGoodbye(goodbye),
              support::StatusIs(absl::StatusCode::kInvalidArgument,
                                "goodbye.outcome: found 0; allowed FINISHED, FAILED, PREEMPTED"));
  goodbye.set_outcome(v1::OUTCOME_FAILED);
  goodbye.set_detail("Traceback:\n\tout of memory");
  EXPECT_OK(ValidateGoodbye(goodbye));
  goodbye.set_detail(std::string(4097, 'x'));
  EXPECT_THAT(ValidateGoodbye(goodbye),
              support::StatusIs(absl::StatusCode::kInvalidArgument,
                                "goodbye.detail: found 4097 bytes; allowed at most 4096 bytes"));
}

}  // namespace
}  // namespace foreshock::ingest
