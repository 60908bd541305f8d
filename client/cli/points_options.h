// The options that say which points: the same for query and export.
//
//   auto options = std::make_shared<PointsOptions>();
//   AddPointsOptions(*verb, options.get());
//   ... FORESHOCK_ASSIGN_OR_RETURN(v1::QueryPointsRequest request, options->Request());
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "foreshock/v1/query.pb.h"

namespace foreshock::cli {

struct PointsOptions {
  std::string run;
  std::string indicator;
  std::vector<int32_t> layers;
  v1::Unit unit = v1::UNIT_UNSPECIFIED;
  std::vector<int64_t> unit_ids;
  std::string unit_name;
  std::vector<std::string> matchers;
  std::string steps;
  std::string attempt = "live";

  v1::SeriesSelector Selector() const;
  // InvalidArgument names the option that is wrong.
  absl::StatusOr<v1::QueryPointsRequest> Request() const;
};

// RUN, INDICATOR (which is returned) and the options. `options` outlives the parsing.
CLI::Option* AddPointsOptions(CLI::App& verb, PointsOptions* options);

}  // namespace foreshock::cli
