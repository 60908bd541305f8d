#include "daemon/remote_write/encoder.h"

#include <snappy.h>

#include <cstdint>
#include <cstring>
#include <utility>

#include "daemon/remote_write/wire.pb.h"

namespace foreshock::remote_write {
namespace {

// The NaN that ends a series; another one would be a value.
double StaleMarker() {
  constexpr uint64_t kBits = 0x7ff0000000000002;
  double value = 0;
  std::memcpy(&value, &kBits, sizeof(value));
  return value;
}

remote_write::MetricType WireType(exporter::ExportedFamily::Type type) {
  switch (type) {
    case exporter::ExportedFamily::Type::kCounter:
      return remote_write::METRIC_TYPE_COUNTER;
    case exporter::ExportedFamily::Type::kGauge:
      return remote_write::METRIC_TYPE_GAUGE;
    case exporter::ExportedFamily::Type::kHistogram:
      return remote_write::METRIC_TYPE_HISTOGRAM;
  }
  return remote_write::METRIC_TYPE_UNKNOWN;
}

EncodedRequest Compress(const remote_write::WriteRequest& request) {
  EncodedRequest encoded{.samples = static_cast<size_t>(request.series_size())};
  const std::string plain = request.SerializeAsString();
  snappy::Compress(plain.data(), plain.size(), &encoded.body);
  return encoded;
}

// Collects series until a request is full.
class Requests {
 public:
  explicit Requests(int64_t time_unix_ms) : time_unix_ms_(time_unix_ms) {}

  void Add(remote_write::TimeSeries series, double value) {
    remote_write::Sample* sample = series.add_samples();
    sample->set_value(value);
    sample->set_time_unix_ms(time_unix_ms_);
    *request_.add_series() = std::move(series);
    if (static_cast<size_t>(request_.series_size()) == SampleEncoder::kSamplesPerRequest) Cut();
  }
  remote_write::Metadata* AddMetadata() { return request_.add_metadata(); }
  void Cut() {
    if (request_.series_size() + request_.metadata_size() == 0) return;
    made_.push_back(Compress(request_));
    request_.Clear();
  }
  std::vector<EncodedRequest> Take() {
    Cut();
    return std::move(made_);
  }

 private:
  const int64_t time_unix_ms_;
  remote_write::WriteRequest request_;
  std::vector<EncodedRequest> made_;
};

}  // namespace

SampleEncoder::SampleEncoder(std::map<std::string, std::string> external_labels)
    : external_labels_(std::move(external_labels)) {}

std::vector<EncodedRequest> SampleEncoder::Encode(
    const std::vector<exporter::ExportedFamily>& families, absl::Time now) {
  Requests requests(absl::ToUnixMillis(now));
  absl::flat_hash_set<std::string> seen;
  for (const exporter::ExportedFamily& family : families) {
    for (const exporter::ExportedSample& sample : family.samples) {
      std::map<std::string, std::string> labels = external_labels_;
      for (const auto& [name, value] : sample.labels) labels[name] = value;
      labels["__name__"] = sample.name;
      remote_write::TimeSeries series;
      for (const auto& [name, value] : labels) {
        if (value.empty()) continue;  // the same as without the label
        remote_write::Label* label = series.add_labels();
        label->set_name(name);
        label->set_value(value);
      }
      std::string key = series.SerializeAsString();
      known_.erase(key);
      seen.insert(std::move(key));
      requests.Add(std::move(series), sample.value);
    }
  }
  for (const std::string& key : known_) {
    remote_write::TimeSeries gone;
    if (gone.ParseFromString(key)) requests.Add(std::move(gone), StaleMarker());
  }
  known_ = std::move(seen);
  if (now >= metadata_at_) {
    metadata_at_ = now + kMetadataInterval;
    requests.Cut();
    for (const exporter::ExportedFamily& family : families) {
      remote_write::Metadata* metadata = requests.AddMetadata();
      metadata->set_type(WireType(family.type));
      metadata->set_family(family.name);
      metadata->set_help(family.help);
    }
  }
  return requests.Take();
}

}  // namespace foreshock::remote_write
