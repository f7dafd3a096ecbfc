#include "server/rpc/registration_memory.h"

#include "absl/strings/str_cat.h"
#include "base/error_details.h"

namespace chorale {

absl::Status ReserveRegistrationMemory(const ServiceEnvironment& environment,
                                       absl::string_view what, int64_t bytes,
                                       ByteReservation* reservation) {
  if (reservation->GrowTo(bytes)) return absl::OkStatus();
  const int64_t limit = environment.registration_memory->limit();
  if (bytes > limit) {
    return MakeError(
        ErrorReason::kDatasetTooLarge,
        absl::StrCat("the ", what, " needs more memory than the limit of all registrations, ",
                     limit >> 20, " MiB (--registration_memory_mib)"));
  }
  environment.metrics->Rejected("registration_memory");
  return ExhaustedRetryAfter(
      ErrorReason::kMemoryFull,
      "other calls use all memory for registrations (--registration_memory_mib)",
      environment.retry_delay);
}

}  // namespace chorale
