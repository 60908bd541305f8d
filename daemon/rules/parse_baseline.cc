// What a detector compares with: the baseline.

#include <algorithm>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "daemon/rules/band.h"
#include "daemon/rules/parse.h"

namespace foreshock::rules {
namespace {

constexpr yaml::YamlRange<double> kPositive = {1e-300, kAnyNumber};

int ParseMinSamples(const yaml::YamlNode& baseline, int samples, int fallback) {
  const yaml::YamlNode node = baseline.Get("min_samples");
  const int min_samples = static_cast<int>(node.Int({2, kSamplesMax}, fallback));
  if (min_samples > samples) {
    node.Error(absl::StrCat("`min_samples` is ", min_samples, " but `samples` is ", samples,
                            "; at most that many are there"));
  }
  return min_samples;
}

}  // namespace

std::shared_ptr<const Band> Bands::Get(const yaml::YamlNode& node) {
  const std::string name = node.String();
  if (!node.present() || !node.is_scalar()) return nullptr;
  const std::string path = (std::filesystem::path(folder_) / name).lexically_normal().string();
  const auto read_before = by_path_.find(path);
  if (read_before != by_path_.end()) return read_before->second;
  if (known_ != nullptr) {
    const auto known = known_->find(path);
    if (known != known_->end()) return by_path_[path] = known->second;
    node.Error(absl::StrCat(path, ": the rules in force have read no band of this name, and no ",
                            "file is opened for rules that come from elsewhere"));
    return nullptr;
  }
  std::string text;
  std::error_code ignored;
  // No device or pipe: reading it might never end.
  const bool special = std::filesystem::is_other(std::filesystem::status(path, ignored));
  const absl::Status read =
      special ? absl::InvalidArgumentError(absl::StrCat(path, ": not a regular file"))
              : yaml::ReadYamlFile(path, &text);
  if (!read.ok()) {
    node.Error(absl::StrCat("the band cannot be read: ", read.message(),
                            "; a name that is not absolute is meant from the folder of the rule "
                            "file"));
    return nullptr;
  }
  return by_path_[path] = Band::Parse(path, text, &errors_);
}

BaselineSpec ParseBaseline(const yaml::YamlNode& node, const Detector& detector, Bands* bands) {
  BaselineSpec spec;
  if (!ComparesWithBaseline(detector)) return spec;
  const std::string kind =
      node.Get("kind").Word({"trailing", "anchored", "fixed", "plateau", "reference"}, "trailing");
  if (kind == "trailing") {
    spec.kind = BaselineSpec::Kind::kTrailing;
    spec.samples = static_cast<int>(node.Get("samples").Int({2, kSamplesMax}, 30));
    const yaml::YamlNode lag = node.Get("lag");
    const int newest = NewestSamples(detector);
    spec.lag = static_cast<int>(lag.Int({1, kSamplesMax}, std::max(5, newest)));
    if (spec.lag < newest) {
      lag.Error(absl::StrCat("`lag` is ", spec.lag, " but `", NameOf(detector),
                             "` looks at the newest ", newest,
                             " samples; at least that many, or they are part of the baseline"));
    }
    spec.min_samples = ParseMinSamples(node, spec.samples, std::min(8, spec.samples));
  } else if (kind == "anchored") {
    spec.kind = BaselineSpec::Kind::kAnchored;
    spec.samples = static_cast<int>(node.Get("samples").Int({2, kSamplesMax}, 10));
    spec.min_samples = ParseMinSamples(node, spec.samples, spec.samples);
  } else if (kind == "fixed") {
    spec.kind = BaselineSpec::Kind::kFixed;
    spec.value = node.Require("value").Double(kPositive, 1);
  } else if (kind == "reference") {
    spec.kind = BaselineSpec::Kind::kReference;
    spec.band = bands->Get(node.Require("file"));
  } else {
    spec.kind = BaselineSpec::Kind::kPlateau;
  }
  if (spec.kind != BaselineSpec::Kind::kPlateau) {
    spec.spread_floor = node.Get("spread_floor").Double({0, 1}, 1e-3);
  }
  return spec;
}

}  // namespace foreshock::rules
