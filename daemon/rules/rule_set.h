// Rules and signatures as loaded from YAML files: immutable, shared between evaluators.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "foreshock/v1/query.pb.h"

namespace foreshock::rules {

class RuleSet {
 public:
  virtual ~RuleSet() = default;
  // One entry per alert rule and signature, in file order.
  virtual const std::vector<v1::RuleInfo>& infos() const = 0;
  // The text it was read from.
  virtual const std::vector<v1::RuleFile>& files() const = 0;
};

// Reads the files as one set, all or nothing. The status lists every error of every file, each as
// file:line:column: what is wrong and what is allowed.
absl::StatusOr<std::shared_ptr<const RuleSet>> LoadRules(absl::Span<const std::string> files);

// The same from text; `name` stands for the file in messages. For tests, fuzzing and the CLI.
absl::StatusOr<std::shared_ptr<const RuleSet>> ParseRules(absl::string_view name,
                                                          absl::string_view text);

// Text that comes from elsewhere, as one set: no file is opened. `name` of a file is for messages;
// a band that a rule names must be one that `in_force` has read.
absl::StatusOr<std::shared_ptr<const RuleSet>> ParseRuleFiles(absl::Span<const v1::RuleFile> files,
                                                              const RuleSet& in_force);

// 0 info, 1 warning, 2 critical.
int SeverityRank(absl::string_view severity);

}  // namespace foreshock::rules
