#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <utility>

// Macros that state which mutex guards which data, in a form that clang's -Wthread-safety checks.
// Other compilers ignore it.
#if defined(__clang__)
#define ISOCOST_THREAD_ATTRIBUTE(attribute) __attribute__((attribute))
#else
#define ISOCOST_THREAD_ATTRIBUTE(attribute)
#endif

/// Marks a data member that is read and written only while the mutex is held.
#define ISOCOST_GUARDED_BY(mutex) ISOCOST_THREAD_ATTRIBUTE(guarded_by(mutex))
/// Marks a function or lambda whose caller must hold the mutex.
#define ISOCOST_REQUIRES(mutex) ISOCOST_THREAD_ATTRIBUTE(requires_capability(mutex))
/// Marks a function whose caller must not hold the mutex, because the function takes it.
#define ISOCOST_EXCLUDES(mutex) ISOCOST_THREAD_ATTRIBUTE(locks_excluded(mutex))
/// Marks a function that is correct for a reason which the analysis cannot see. State the reason
/// there.
#define ISOCOST_NO_THREAD_SAFETY_ANALYSIS ISOCOST_THREAD_ATTRIBUTE(no_thread_safety_analysis)

namespace isocost {

/// A std::mutex that the thread-safety analysis knows. Take it with MutexLock.
class ISOCOST_THREAD_ATTRIBUTE(capability("mutex")) Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() ISOCOST_THREAD_ATTRIBUTE(acquire_capability()) { mutex_.lock(); }
  void unlock() ISOCOST_THREAD_ATTRIBUTE(release_capability()) { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

/// Holds a mutex from its construction to the end of its scope.
class ISOCOST_THREAD_ATTRIBUTE(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ISOCOST_THREAD_ATTRIBUTE(acquire_capability(mutex))
      : mutex_(mutex) {
    mutex_.lock();
  }
  ~MutexLock() ISOCOST_THREAD_ATTRIBUTE(release_capability()) { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

/// Waits for a condition on data that a Mutex guards. The caller holds the mutex, which is released
/// while the call waits and held again when it returns. `ready` is called with the mutex held and
/// says whether the wait is over: a lambda marked ISOCOST_REQUIRES(mutex). Internally synchronised.
class ConditionVariable {
 public:
  void notify_one() { changed_.notify_one(); }
  void notify_all() { changed_.notify_all(); }

  /// Blocks until `ready` holds. Only for a wait that is certain to end, such as a destructor's for
  /// tasks that wait for nothing.
  template <typename Ready>
  void wait(Mutex& mutex, Ready ready) ISOCOST_REQUIRES(mutex) {
    changed_.wait(mutex, std::move(ready));
  }

  /// Blocks until `ready` holds or `stop` is requested. Returns whether `ready` holds.
  template <typename Ready>
  bool wait(Mutex& mutex, const std::stop_token& stop, Ready ready) ISOCOST_REQUIRES(mutex) {
    return changed_.wait(mutex, stop, std::move(ready));
  }

  /// Blocks until `ready` holds, `stop` is requested or `deadline` is reached. Returns whether
  /// `ready` holds.
  template <typename Ready>
  bool wait_until(Mutex& mutex, const std::stop_token& stop,
                  std::chrono::steady_clock::time_point deadline, Ready ready)
      ISOCOST_REQUIRES(mutex) {
    return changed_.wait_until(mutex, stop, deadline, std::move(ready));
  }

  /// Blocks until `ready` holds, `stop` is requested or `limit` has passed. Returns whether `ready`
  /// holds.
  template <typename Rep, typename Period, typename Ready>
  bool wait_for(Mutex& mutex, const std::stop_token& stop, std::chrono::duration<Rep, Period> limit,
                Ready ready) ISOCOST_REQUIRES(mutex) {
    return changed_.wait_for(mutex, stop, limit, std::move(ready));
  }
  template <typename Rep, typename Period, typename Ready>
  bool wait_for(Mutex& mutex, std::chrono::duration<Rep, Period> limit, Ready ready)
      ISOCOST_REQUIRES(mutex) {
    return changed_.wait_for(mutex, limit, std::move(ready));
  }

 private:
  std::condition_variable_any changed_;
};

}  // namespace isocost
