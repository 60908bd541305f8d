// Small captures for tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "foreshock/v1/capture.pb.h"

namespace foreshock::capture {

v1::CaptureRecord HelloRecord(uint32_t stream);
v1::CaptureRecord ReportRecord(uint32_t stream, uint64_t seq, double loss);
v1::CaptureRecord GoodbyeRecord(uint32_t stream);

// Two streams, `steps` reports each, goodbyes.
std::vector<v1::CaptureRecord> SmallCapture(int steps);

std::string ReadFile(const std::string& path);
void WriteFile(const std::string& path, const std::string& bytes);

}  // namespace foreshock::capture
