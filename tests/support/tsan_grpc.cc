// What orders threads inside gRPC, told to ThreadSanitizer. Debian's libgrpc and libabsl are not
// built for it: their locks sleep in futexes of their own and the rest is done by atomics, none of
// which it sees, so that whatever passes through gRPC from one thread to another looks like a race.
// The build with ThreadSanitizer links this file into every program. The loader prefers these
// functions to the libraries'; each calls the library's, which it finds by its name in Debian 12.
//
// - absl::Mutex and absl::CondVar, as far as gRPC calls them (ours are daemon/base/mutex.h).
// - A batch of a call happens before its completion, wherever that runs.
// - What reactions of a callback call did happens before its OnDone, which runs where the last of
//   them ended: the executor that it would be handed to is not seen.
// - What a call did to its end, OnDone included, happens before its server is gone.
#include <dlfcn.h>
#include <grpc/grpc.h>
#include <grpcpp/support/server_callback.h>
#include <sanitizer/tsan_interface.h>

#include <array>
#include <atomic>
#include <cstdint>

#include "absl/synchronization/mutex.h"

namespace {

template <typename Function>
Function Real(const char* symbol) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, symbol));
}

// A functor is told of a completion by a call of the function in it; its place is taken by one that
// says first what the completion comes after. There are two such functions in gRPC's headers.
using FunctorRun = void (*)(grpc_completion_queue_functor*, int);
constexpr int kRunsMax = 4;
std::array<std::atomic<FunctorRun>, kRunsMax> real_runs{};

template <int kAt>
void OrderedRun(grpc_completion_queue_functor* functor, int ok) {
  __tsan_acquire(functor);
  real_runs[kAt].load(std::memory_order_relaxed)(functor, ok);
}
constexpr FunctorRun kOrderedRuns[kRunsMax] = {&OrderedRun<0>, &OrderedRun<1>, &OrderedRun<2>,
                                               &OrderedRun<3>};

extern "C" const char __executable_start;
extern "C" const char etext;

void TakePlace(void* tag) {
  // A tag is a functor or an object with virtual functions; only a functor begins with a function,
  // and only one from headers, thus of this program, can run our code.
  auto* const functor = static_cast<grpc_completion_queue_functor*>(tag);
  const FunctorRun run = functor->functor_run;
  const auto at = reinterpret_cast<uintptr_t>(run);
  if (at < reinterpret_cast<uintptr_t>(&__executable_start) ||
      at >= reinterpret_cast<uintptr_t>(&etext)) {
    return;
  }
  for (const FunctorRun ordered : kOrderedRuns) {
    if (run == ordered) return;
  }
  for (int i = 0; i < kRunsMax; ++i) {
    FunctorRun known = nullptr;
    if (real_runs[i].compare_exchange_strong(known, run, std::memory_order_relaxed) ||
        known == run) {
      functor->functor_run = kOrderedRuns[i];
      return;
    }
  }
}

}  // namespace

extern "C" grpc_call_error grpc_call_start_batch(grpc_call* call, const grpc_op* ops, size_t count,
                                                 void* tag, void* reserved) {
  static const auto start = Real<decltype(&grpc_call_start_batch)>("grpc_call_start_batch");
  if (tag != nullptr) {
    TakePlace(tag);
    __tsan_release(tag);
  }
  return start(call, ops, count, tag, reserved);
}

// Of all servers: released by every call, acquired by nothing else.
static char calls_end;

extern "C" void grpc_call_unref(grpc_call* call) {
  static const auto unref = Real<decltype(&grpc_call_unref)>("grpc_call_unref");
  __tsan_release(&calls_end);
  unref(call);
}

extern "C" void grpc_server_destroy(grpc_server* server) {
  static const auto destroy = Real<decltype(&grpc_server_destroy)>("grpc_server_destroy");
  destroy(server);
  __tsan_acquire(&calls_end);
}

extern "C" grpc_event grpc_completion_queue_pluck(grpc_completion_queue* queue, void* tag,
                                                  gpr_timespec deadline, void* reserved) {
  static const auto pluck =
      Real<decltype(&grpc_completion_queue_pluck)>("grpc_completion_queue_pluck");
  const grpc_event event = pluck(queue, tag, deadline, reserved);
  if (event.type == GRPC_OP_COMPLETE) __tsan_acquire(tag);
  return event;
}

extern "C" grpc_event grpc_completion_queue_next(grpc_completion_queue* queue,
                                                 gpr_timespec deadline, void* reserved) {
  static const auto next =
      Real<decltype(&grpc_completion_queue_next)>("grpc_completion_queue_next");
  const grpc_event event = next(queue, deadline, reserved);
  if (event.type == GRPC_OP_COMPLETE && event.tag != nullptr) __tsan_acquire(event.tag);
  return event;
}

namespace grpc::internal {

// The count of outstanding reactions is one that the library decrements too, unseen.
void ServerCallbackCall::ScheduleOnDone(bool) {
  static_cast<void>(callbacks_outstanding_.load(std::memory_order_acquire));
  CallOnDone();
}

}  // namespace grpc::internal

namespace absl {
ABSL_NAMESPACE_BEGIN

void Mutex::Lock() {
  static const auto lock = Real<void (*)(Mutex*)>("_ZN4absl7debian35Mutex4LockEv");
  lock(this);
  __tsan_acquire(this);
}

bool Mutex::TryLock() {
  static const auto try_lock = Real<bool (*)(Mutex*)>("_ZN4absl7debian35Mutex7TryLockEv");
  if (!try_lock(this)) return false;
  __tsan_acquire(this);
  return true;
}

void Mutex::Unlock() {
  static const auto unlock = Real<void (*)(Mutex*)>("_ZN4absl7debian35Mutex6UnlockEv");
  __tsan_release(this);
  unlock(this);
}

void CondVar::Wait(Mutex* mutex) {
  static const auto wait =
      Real<void (*)(CondVar*, Mutex*)>("_ZN4absl7debian37CondVar4WaitEPNS0_5MutexE");
  __tsan_release(mutex);
  wait(this, mutex);
  __tsan_acquire(mutex);
}

bool CondVar::WaitWithTimeout(Mutex* mutex, Duration timeout) {
  static const auto wait = Real<bool (*)(CondVar*, Mutex*, Duration)>(
      "_ZN4absl7debian37CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE");
  __tsan_release(mutex);
  const bool timed_out = wait(this, mutex, timeout);
  __tsan_acquire(mutex);
  return timed_out;
}

bool CondVar::WaitWithDeadline(Mutex* mutex, Time deadline) {
  static const auto wait = Real<bool (*)(CondVar*, Mutex*, Time)>(
      "_ZN4absl7debian37CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE");
  __tsan_release(mutex);
  const bool timed_out = wait(this, mutex, deadline);
  __tsan_acquire(mutex);
  return timed_out;
}

ABSL_NAMESPACE_END
}  // namespace absl
