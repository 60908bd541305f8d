#include "daemon/rules/detectors/change.h"

#include "absl/strings/str_cat.h"
#include "daemon/rules/parse.h"

namespace foreshock::rules {
namespace {

constexpr double kSizeMax = 1e6;
constexpr double kNoisesMax = 1000;

}  // namespace

void ParseChange(const yaml::YamlNode& node, const ChangeDefaults& defaults, ChangeSpec* spec) {
  const yaml::YamlNode rise = node.Get("rise");
  const yaml::YamlNode fall = node.Get("fall");
  if (rise.present() == fall.present()) {
    node.Error(
        absl::StrCat("exactly one of rise, fall is expected: how far from what it was, for "
                     "example `rise: 0.05` for five percent or `rise: 1` for a doubling"));
  }
  spec->limits.side = fall.present() ? detect::Side::kDown : detect::Side::kUp;
  spec->limits.size = rise.present() ? rise.Double({defaults.size_min, kSizeMax})
                                     : fall.Double({defaults.size_min, kSizeMax});
  if (defaults.noises > 0) {
    spec->limits.noises = node.Get("noises").Double({0, kNoisesMax}, defaults.noises);
  }
  if (fall.present() && fall.is_scalar() && spec->limits.size >= 1) {
    fall.Error(absl::StrCat("`fall` is ", spec->limits.size,
                            "; less than 1 is allowed: a positive series cannot lose all of it"));
    spec->limits.size = 0.5;
  }
  spec->positive = node.Get("values").Word({"positive", "signed"}, "positive") == "positive";
  spec->accept_after = static_cast<int>(node.Get("accept_after").Int({1, kSamplesMax}, 0));
  spec->limits.logarithm = defaults.logarithm && spec->positive;
}

}  // namespace foreshock::rules
