// Values as short text for tables.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "foreshock/v1/query.pb.h"
#include "google/protobuf/repeated_field.h"

namespace foreshock::cli {

// Four significant digits: "0.7134", "12.31", "1.52e-06"; whole numbers below 2^53 in full.
std::string FormatValue(double value);
// "1 234 567".
std::string FormatCount(uint64_t count);
// "3 h 12 min", "42 s", "0.8 s".
std::string ShortDuration(absl::Duration duration);
// Local time, "2026-03-01 14:02:31"; "-" for 0.
std::string LocalTime(int64_t unix_ns);
// "0 2", "0-63", "0 1 4-7".
std::string FormatRanges(const std::set<uint64_t>& numbers);
// "layer 1, head 0"; "whole run" where the series has neither.
std::string FormatWhere(const v1::Series& series);
// "layer 2, head 1", "all layers", "rank 3", "layers 0, 2", "whole run".
std::string FormatWhere(const v1::Alert& alert);
// "38 of 52 rules, 1 500 rows from step 0"; "nothing yet".
std::string FormatJudged(const v1::Judged& judged);
// "grid, late"; empty for none.
std::string FormatFlags(const google::protobuf::RepeatedField<int>& flags);
// Enumerators without their prefix, in lower case: "live", "warmup_end".
std::string StateName(v1::RunState state);
std::string StateName(v1::AlertState state);
std::string KindName(v1::EventKind kind);
std::string UnitName(v1::Unit unit);
// The course of the values in at most `columns` block characters, scaled from their least to their
// greatest; empty for no values.
std::string Sparkline(const std::vector<double>& values, size_t columns);
// `count` with its noun, "1 alert", "2 alerts".
std::string Plural(uint64_t count, absl::string_view noun);

}  // namespace foreshock::cli
