// Turns the answers of DiskStore into messages of AdminService.
#pragma once

#include "daemon/store/disk_store.h"
#include "foreshock/v1/admin.pb.h"

namespace foreshock::store {

v1::GetStoreStatsResponse ToProto(const StoreUsage& usage);
v1::VerifyFinding ToProto(const VerifyFinding& finding);
v1::VerifyProgress ToProto(const VerifyProgress& progress);
v1::VerifyResult ToProto(const VerifyResult& result);

}  // namespace foreshock::store
