#include "tests/engine/store/simulated_disk.h"

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "tests/support/temp_folder.h"

namespace chorale {
namespace {

std::string ParentOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

void ApplyTo(std::string* content, const DiskCall& call) {
  if (call.kind == DiskCall::Kind::kResize) {
    content->resize(static_cast<size_t>(call.size));
    return;
  }
  const size_t end = static_cast<size_t>(call.offset) + call.bytes.size();
  content->resize(std::max(content->size(), end));
  content->replace(static_cast<size_t>(call.offset), call.bytes.size(), call.bytes);
}

}  // namespace

std::string DiskCall::ToString() const {
  switch (kind) {
    case Kind::kCreate:
      return absl::StrCat("create ", path);
    case Kind::kMakeFolder:
      return absl::StrCat("mkdir ", path);
    case Kind::kWrite:
      return absl::StrCat("write ", path, " at ", offset, ", ", bytes.size(), " bytes");
    case Kind::kResize:
      return absl::StrCat("resize ", path, " to ", size);
    case Kind::kSync:
      return absl::StrCat("fsync ", path);
    case Kind::kRename:
      return absl::StrCat("rename ", path, " to ", to);
    case Kind::kUnlink:
      return absl::StrCat("unlink ", path);
  }
  return "";
}

void SimulatedDisk::Apply(const DiskCall& call) {
  switch (call.kind) {
    case DiskCall::Kind::kCreate:
      names_[call.path] = call.file;
      files_[call.file] = {};
      return;
    case DiskCall::Kind::kMakeFolder:
      names_[call.path] = 0;
      return;
    case DiskCall::Kind::kWrite:
    case DiskCall::Kind::kResize:
      files_[call.file].unsynced.push_back(call);
      return;
    case DiskCall::Kind::kRename:
      names_[call.to] = names_.at(call.path);
      names_.erase(call.path);
      return;
    case DiskCall::Kind::kUnlink:
      names_.erase(call.path);
      return;
    case DiskCall::Kind::kSync:
      break;
  }
  if (call.file != 0) {
    File& file = files_[call.file];
    for (const DiskCall& change : file.unsynced) ApplyTo(&file.durable, change);
    file.unsynced.clear();
    return;
  }
  const auto here = [&](const auto& entry) { return ParentOf(entry.first) == call.path; };
  std::erase_if(durable_names_, here);
  std::copy_if(names_.begin(), names_.end(), std::inserter(durable_names_, durable_names_.end()),
               here);
}

std::string SimulatedDisk::Content(const File& file, Crash crash) {
  std::string content = file.durable;
  if (file.unsynced.empty()) return content;
  switch (crash) {
    case Crash::kAllLost:
    case Crash::kContentsLost:
      break;
    case Crash::kOfTheProcess:
    case Crash::kNamesLost:
      for (const DiskCall& change : file.unsynced) ApplyTo(&content, change);
      break;
    case Crash::kTorn: {
      for (size_t i = 0; i + 1 < file.unsynced.size(); ++i) ApplyTo(&content, file.unsynced[i]);
      DiskCall half = file.unsynced.back();
      half.bytes.resize(half.bytes.size() / 2);
      ApplyTo(&content, half);
      break;
    }
    case Crash::kLastWritesFirst:
      ApplyTo(&content, file.unsynced.back());
      break;
  }
  return content;
}

DiskImage SimulatedDisk::After(Crash crash) const {
  const bool names_lost = crash == Crash::kAllLost || crash == Crash::kNamesLost;
  const Names& names = names_lost ? durable_names_ : names_;
  DiskImage image;
  for (const auto& [path, file] : names) {
    const std::string parent = ParentOf(path);
    if (!parent.empty() && image.count(parent + "/") == 0) continue;  // a lost folder
    if (file == 0) {
      image[path + "/"] = "";
    } else {
      image[path] = Content(files_.at(file), crash);
    }
  }
  return image;
}

void WriteImage(const DiskImage& image, const std::string& folder) {
  for (const auto& [path, content] : image) {
    const std::string whole = absl::StrCat(folder, "/", path);
    if (path.back() == '/') {
      std::filesystem::create_directory(whole);
    } else {
      WriteFile(whole, content);
    }
  }
}

DiskImage ReadImage(const std::string& folder) {
  DiskImage image;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    const std::string path = entry.path().lexically_relative(folder).string();
    if (entry.is_directory()) {
      image[path + "/"] = "";
    } else {
      image[path] = ReadFile(entry.path().string());
    }
  }
  return image;
}

}  // namespace chorale
