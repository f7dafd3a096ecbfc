#include "client/cli/growing_output.h"

#include <sys/stat.h>

#include <filesystem>
#include <iostream>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cli/output_file.h"

namespace chorale::client {
namespace {

absl::Status CannotWriteTo(const std::string& place) {
  return absl::InvalidArgumentError(absl::StrCat("cannot write to ", place));
}

}  // namespace

std::string PartialFile(const std::string& output) { return absl::StrCat(output, ".partial"); }

bool HasPartialFile(const std::string& output) {
  struct stat info = {};
  return !output.empty() && (stat(output.c_str(), &info) != 0 || S_ISREG(info.st_mode));
}

GrowingOutput::GrowingOutput(std::string output, bool append)
    : output_(std::move(output)), append_(append) {}

absl::StatusOr<std::ostream*> GrowingOutput::Open() {
  if (stream_ != nullptr) return stream_;
  if (output_.empty()) {
    place_ = "standard output";
    stream_ = &std::cout;
    return stream_;
  }
  has_partial_file_ = HasPartialFile(output_);
  place_ = has_partial_file_ ? PartialFile(output_) : output_;
  file_.open(place_, std::ios::binary | (append_ ? std::ios::app : std::ios::trunc));
  stream_ = &file_;
  if (file_.is_open()) return stream_;
  if (append_ || !has_partial_file_) return CannotWriteTo(place_);
  has_partial_file_ = false;
  place_.clear();
  stream_ = &memory_;
  return stream_;
}

absl::Status GrowingOutput::Flush() {
  stream_->flush();
  return *stream_ ? absl::OkStatus() : CannotWriteTo(place_);
}

absl::Status GrowingOutput::Finish() {
  if (file_.is_open()) {
    file_.close();
    if (!file_) return CannotWriteTo(place_);
  }
  if (!has_partial_file_) {
    if (stream_ != &memory_) return absl::OkStatus();
    return WriteOutputFile(output_, [&](std::ostream& out) { out << memory_.str(); });
  }
  std::error_code error;
  if (!std::filesystem::exists(std::filesystem::symlink_status(output_, error))) {
    std::filesystem::rename(place_, output_, error);
    if (!error) return absl::OkStatus();
  }
  // The existing file may have to keep its mode, its links or its owner.
  absl::Status status = WriteOutputFile(
      output_, [&](std::ostream& out) { out << std::ifstream(place_, std::ios::binary).rdbuf(); });
  if (status.ok()) std::filesystem::remove(place_, error);
  return status;
}

}  // namespace chorale::client
