#include "daemon/remote_write/encoder.h"

#include <snappy.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "daemon/remote_write/wire.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace foreshock::remote_write {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

const absl::Time kStart = absl::FromUnixMillis(1'800'000'000'123);

remote_write::WriteRequest Decode(const EncodedRequest& request) {
  std::string plain;
  EXPECT_TRUE(snappy::Uncompress(request.body.data(), request.body.size(), &plain));
  remote_write::WriteRequest decoded;
  EXPECT_TRUE(decoded.ParseFromString(plain));
  EXPECT_EQ(request.samples, static_cast<size_t>(decoded.series_size()));
  return decoded;
}

// "a=1 b=2 : value" of every series, "stale" for a marker.
std::vector<std::string> SeriesOf(const std::vector<EncodedRequest>& requests) {
  std::vector<std::string> all;
  for (const EncodedRequest& request : requests) {
    const remote_write::WriteRequest decoded = Decode(request);
    for (const remote_write::TimeSeries& series : decoded.series()) {
      std::string text;
      for (const auto& label : series.labels()) {
        absl::StrAppend(&text, label.name(), "=", label.value(), " ");
      }
      EXPECT_EQ(series.samples_size(), 1);
      uint64_t bits = 0;
      const double value = series.samples(0).value();
      std::memcpy(&bits, &value, sizeof(bits));
      all.push_back(bits == 0x7ff0000000000002 ? text + ": stale"
                                               : absl::StrCat(text, ": ", value));
    }
  }
  return all;
}

exporter::ExportedFamily Gauge(const std::string& name,
                               std::vector<exporter::ExportedSample> samples) {
  for (exporter::ExportedSample& sample : samples) sample.name = name;
  return {.name = name, .help = "what it is", .samples = std::move(samples)};
}

TEST(SampleEncoderTest, LabelsAreSortedAndExternalOnesGiveWay) {
  SampleEncoder encoder({{"cluster", "a"}, {"run", "none"}, {"empty", ""}});
  const auto requests = encoder.Encode(
      {Gauge("foreshock_loss", {{.labels = {{"run", "x"}, {"agg", "mean"}}, .value = 2.5}}),
       Gauge("foreshock_up", {{.value = 1}})},
      kStart);
  EXPECT_THAT(SeriesOf(requests),
              ElementsAre("__name__=foreshock_loss agg=mean cluster=a run=x : 2.5",
                          "__name__=foreshock_up cluster=a run=none : 1"));
  EXPECT_EQ(Decode(requests[0]).series(0).samples(0).time_unix_ms(), 1'800'000'000'123);
}

TEST(SampleEncoderTest, WhatIsNotThereAnyMoreEndsOnce) {
  SampleEncoder encoder({});
  const auto a = [](double value) {
    return exporter::ExportedSample{.labels = {{"run", "a"}}, .value = value};
  };
  const exporter::ExportedSample b{.labels = {{"run", "b"}}, .value = 7};
  (void)encoder.Encode({Gauge("steps", {a(1), b})}, kStart);
  EXPECT_THAT(SeriesOf(encoder.Encode({Gauge("steps", {a(2)})}, kStart + absl::Seconds(15))),
              UnorderedElementsAre("__name__=steps run=a : 2", "__name__=steps run=b : stale"));
  EXPECT_THAT(SeriesOf(encoder.Encode({Gauge("steps", {a(3)})}, kStart + absl::Seconds(30))),
              ElementsAre("__name__=steps run=a : 3"));
  // And one that comes back ends again.
  (void)encoder.Encode({Gauge("steps", {a(4), b})}, kStart + absl::Seconds(45));
  EXPECT_THAT(SeriesOf(encoder.Encode({}, kStart + absl::Seconds(46))),
              UnorderedElementsAre("__name__=steps run=a : stale", "__name__=steps run=b : stale"));
}

TEST(SampleEncoderTest, ManySeriesAreSeveralRequestsAndNoneIsLost) {
  constexpr size_t kSeries = 2 * SampleEncoder::kSamplesPerRequest + 1;
  std::vector<exporter::ExportedSample> samples;
  for (size_t i = 0; i < kSeries; ++i) {
    samples.push_back({.labels = {{"layer", absl::StrCat(i)}}, .value = static_cast<double>(i)});
  }
  const auto requests = SampleEncoder({}).Encode({Gauge("x", samples)}, kStart);
  ASSERT_THAT(requests, SizeIs(4));  // the last one has the metadata
  EXPECT_EQ(requests[0].samples, SampleEncoder::kSamplesPerRequest);
  EXPECT_EQ(requests[2].samples, 1u);
  EXPECT_THAT(SeriesOf(requests), SizeIs(kSeries));
}

TEST(SampleEncoderTest, TypesAndHelpComeAtFirstAndOnceAMinute) {
  SampleEncoder encoder({});
  exporter::ExportedFamily counter = Gauge("n_total", {{.value = 1}});
  counter.type = exporter::ExportedFamily::Type::kCounter;
  const auto metadata_of = [&](absl::Duration after) {
    std::vector<std::string> all;
    for (const EncodedRequest& request : encoder.Encode({counter}, kStart + after)) {
      const remote_write::WriteRequest decoded = Decode(request);
      for (const auto& metadata : decoded.metadata()) {
        all.push_back(absl::StrCat(metadata.family(), " ", metadata.type(), " ", metadata.help()));
      }
    }
    return all;
  };
  EXPECT_THAT(metadata_of(absl::ZeroDuration()), ElementsAre("n_total 1 what it is"));
  EXPECT_THAT(metadata_of(absl::Seconds(59)), IsEmpty());
  EXPECT_THAT(metadata_of(absl::Seconds(60)), SizeIs(1));
}

}  // namespace
}  // namespace foreshock::remote_write
