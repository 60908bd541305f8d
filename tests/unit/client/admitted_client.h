// The daemon's Client, for a test that uses the library's: what the name of an admitted caller is.
//
//   EXPECT_EQ(AdmittedName("trainer"), "trainer");
#pragma once

#include <string>

namespace foreshock::client_internal {

std::string AdmittedName(const std::string& name);

}  // namespace foreshock::client_internal
