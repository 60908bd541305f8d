// A run in blocks of steps, for retention to work at while the process is killed.
//
//   ASSERT_OK(store->Write(BlockAfter(0)));
//   EXPECT_EQ(CheckHoldsBlocks(*store, kBlockSteps), "");
#pragma once

#include <cstdint>
#include <string>

#include "daemon/store/disk_store.h"

namespace foreshock {

inline constexpr char kBlockRun[] = "blocks";
// The first step of the run is 1.
inline constexpr int64_t kBlockSteps = 256;
// So many of its newest steps are to stay raw.
inline constexpr int64_t kBlockRawSteps = 2048;

// The block of the steps after `last`.
StoreBatch BlockAfter(int64_t last);

// The last step of the run in the store; 0: there is none, -1: cannot be read.
int64_t LastBlockStep(const Store& store);

// Every step up to `last` counts once in every series with its value, the newest ones are there as
// they were written, and the store finds no fault with itself. Empty, or what is wrong.
std::string CheckHoldsBlocks(const DiskStore& store, int64_t last);

}  // namespace foreshock
