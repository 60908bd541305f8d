// What some indicators need of earlier steps of the attempt: the last losses and gradient norms
// (spike scores) and the last steps of expert counts (dead experts).
#pragma once

namespace foreshock {

class History;

}  // namespace foreshock
