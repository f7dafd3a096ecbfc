#include "client/cpp/request_fields.h"

#include "base/status_macros.h"
#include "client/cpp/groups.h"
#include "client/cpp/known_values.h"

namespace chorale::client {

v1::Snapping ToProto(Snapping snapping) {
  return snapping == Snapping::kOff ? v1::SNAPPING_OFF : v1::SNAPPING_UNSPECIFIED;
}

v1::BeyondBuffer ToProto(BeyondBuffer beyond) {
  return beyond == BeyondBuffer::kWrap ? v1::BEYOND_BUFFER_WRAP : v1::BEYOND_BUFFER_UNSPECIFIED;
}

absl::Status CheckQueryRows(const DataFrame& rows, const v1::KnownValues& known,
                            const std::vector<int32_t>& group_sizes) {
  if (rows.row_count() == 0) {
    return absl::InvalidArgumentError("rows: the table has no rows");
  }
  RETURN_IF_ERROR(CheckKnownRows(known, rows.row_count()));
  return CheckGroups(group_sizes, known, rows.row_count());
}

absl::Status CheckSize(absl::string_view what, int64_t size, int64_t expected) {
  if (size == expected) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("the server sent ", size, " ", what, " instead of ", expected));
}

}  // namespace chorale::client
