#include "client/cli/points_options.h"

#include <map>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/cli/cli.h"
#include "client/cli/one_of.h"
#include "client/cli/step_range.h"

namespace foreshock::cli {

v1::SeriesSelector PointsOptions::Selector() const {
  v1::SeriesSelector selector;
  selector.set_run(run);
  selector.set_indicator(indicator);
  selector.mutable_layers()->Add(layers.begin(), layers.end());
  selector.set_unit(unit);
  selector.mutable_unit_ids()->Add(unit_ids.begin(), unit_ids.end());
  selector.set_unit_name(unit_name);
  selector.mutable_matchers()->Add(matchers.begin(), matchers.end());
  return selector;
}

absl::StatusOr<v1::QueryPointsRequest> PointsOptions::Request() const {
  v1::QueryPointsRequest request;
  *request.mutable_selector() = Selector();
  if (!steps.empty()) {
    const absl::StatusOr<StepsArgument> range = ParseSteps(steps);
    if (!range.ok()) return range.status();
    if (range->first) request.set_first_step(*range->first);
    if (range->last) request.set_last_step(*range->last);
  }
  if (attempt != "live") {
    uint32_t number = 0;
    if (!absl::SimpleAtoi(attempt, &number) || number == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("--attempt ", attempt, ": expected 1, 2, ... or live"));
    }
    request.set_attempt(number);
  }
  return request;
}

CLI::Option* AddPointsOptions(CLI::App& verb, PointsOptions* options) {
  static const std::map<std::string, v1::Unit> kUnits = {
      {"none", v1::UNIT_NONE},     {"head", v1::UNIT_HEAD},
      {"expert", v1::UNIT_EXPERT}, {"projection", v1::UNIT_PROJECTION},
      {"rank", v1::UNIT_RANK},     {"tensor", v1::UNIT_TENSOR}};
  verb.add_option("RUN", options->run, "the run's name")->required();
  CLI::Option* indicator = verb.add_option("INDICATOR", options->indicator,
                                           "its id, or a prefix ending in '*' (attn.delta2.*)");
  verb.add_option("--layer", options->layers, "only these layers (-1: series without a layer)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("N")
      ->check(WholeBetween(-1, 1 << 20));
  verb.add_option("--unit", options->unit, "only series of a head, expert, rank, ...")
      ->transform(OneOf(kUnits))
      ->type_name("UNIT");
  verb.add_option("--unit-id", options->unit_ids, "only these heads, experts, ranks")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("N");
  verb.add_option("--unit-name", options->unit_name, "only this tensor")->type_name("NAME");
  verb.add_option("--match", options->matchers,
                  "a condition on indicator, layer, unit, unit_id or unit_name, as in PromQL; may "
                  "be repeated")
      ->allow_extra_args(false)
      ->type_name("LABEL=~REGEX");
  verb.add_option("--steps", options->steps, "first and last step, either may be missing")
      ->type_name("A:B");
  verb.add_option("--attempt", options->attempt,
                  "one attempt, or live: of each step the newest attempt that reached it")
      ->type_name("N|live")
      ->capture_default_str();
  return indicator;
}

}  // namespace foreshock::cli
