// Whether this build has sanitizers.
#ifndef CHORALE_BASE_SANITIZED_H_
#define CHORALE_BASE_SANITIZED_H_

namespace chorale {

// True when built with the address or thread sanitizer: a process's memory is then not only its
// own, and everything takes several times longer.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace chorale

#endif  // CHORALE_BASE_SANITIZED_H_
