#include "engine/store/sqlite_context_store.h"

#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "base/names.h"
#include "base/status_macros.h"
#include "engine/data/dataset_codec.h"
#include "engine/store/failpoint.h"
#include "engine/store/page_token.h"
#include "spdlog/spdlog.h"

namespace chorale {
namespace {

constexpr int64_t kMaxPageSize = 1000;

absl::Status ValidatePut(const ContextRecord& record, absl::string_view dataset) {
  RETURN_IF_ERROR(ValidateName("context_id", record.name));
  RETURN_IF_ERROR(ValidateName("model", record.model));
  if (record.digest != ContentDigest(dataset)) {
    return InvalidField("digest", "is not that of the dataset");
  }
  if (record.dataset_bytes != static_cast<int64_t>(dataset.size())) {
    return InvalidField("dataset_bytes",
                        absl::StrCat("is ", record.dataset_bytes, " but the dataset has ",
                                     dataset.size(), " bytes"));
  }
  return absl::OkStatus();
}

absl::Status NoContext(const std::string& name) {
  return absl::NotFoundError(absl::StrCat("no context ", QuoteName(name)));
}

}  // namespace

// Keeps a dataset's file from being removed while a call is busy with it.
class SqliteContextStore::Pin {
 public:
  Pin(SqliteContextStore& store, DatasetId id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(store.mutex_)
      : store_(store), id_(std::move(id)) {
    store_.AddPin(id_);
  }
  ~Pin() { store_.DropPin(id_); }
  Pin(const Pin&) = delete;
  Pin& operator=(const Pin&) = delete;

 private:
  SqliteContextStore& store_;
  const DatasetId id_;
};

absl::StatusOr<std::unique_ptr<ContextStore>> OpenSqliteContextStore(const std::string& folder) {
  return SqliteContextStore::Open(folder);
}

absl::StatusOr<std::unique_ptr<ContextStore>> SqliteContextStore::Open(const std::string& folder) {
  RETURN_IF_ERROR(MakeFolder(folder));
  absl::StatusOr<FileDescriptor> lock = LockFile(absl::StrCat(folder, "/LOCK"));
  RETURN_IF_ERROR(lock.status());
  auto files = std::make_unique<DatasetFiles>(absl::StrCat(folder, "/datasets"),
                                              absl::StrCat(folder, "/lost"));
  RETURN_IF_ERROR(files->Open());
  absl::StatusOr<std::set<std::string>> present = files->List();
  RETURN_IF_ERROR(present.status());

  // A new database beside datasets means that the old one was lost. To continue would move all
  // datasets to `lost`.
  absl::StatusOr<std::unique_ptr<ContextTable>> table = ContextTable::Open(
      absl::StrCat(folder, "/contexts.db"),
      present->empty() ? ContextTable::IfNew::kCreate : ContextTable::IfNew::kRefuse);
  RETURN_IF_ERROR(table.status());
  RETURN_IF_ERROR(SyncFolder(folder));

  std::unique_ptr<SqliteContextStore> store(
      new SqliteContextStore(*std::move(lock), *std::move(table), std::move(files)));
  RETURN_IF_ERROR(store->MatchFiles(*std::move(present)));
  return store;
}

absl::Status SqliteContextStore::MatchFiles(std::set<std::string> files) {
  MutexLock lock(&mutex_);
  absl::StatusOr<std::vector<std::pair<std::string, std::string>>> named = table_->AllDatasets();
  RETURN_IF_ERROR(named.status());

  for (const auto& [tenant, digest] : *named) {
    const std::string key = DatasetKey(tenant, digest);
    if (files.erase(key) > 0) {
      RETURN_IF_ERROR(files_->ForgetLost(key));
      continue;
    }
    const absl::StatusOr<bool> taken_back = files_->TakeBack(key);
    RETURN_IF_ERROR(taken_back.status());
    if (*taken_back) {
      spdlog::info("the dataset file {} had been set aside and is needed again", key);
      continue;
    }
    // The other contexts are worth serving. Reading this one answers DataLoss, and registering
    // it again repairs it.
    spdlog::error("the dataset {} of tenant {} is missing; its contexts cannot be read", digest,
                  QuoteName(tenant));
  }
  for (const std::string& key : files) {
    RETURN_IF_ERROR(files_->SetAside(key));
  }
  if (!files.empty()) {
    spdlog::warn(
        "{} dataset file(s) that no context names were moved to the folder lost, {} first. A call "
        "that was cut short leaves one behind; many mean that the database has lost contexts. With "
        "a database that names them they are found again. They are removed after {}.",
        files.size(), *files.begin(), absl::FormatDuration(DatasetFiles::kKeptWhenLost));
  }
  return absl::OkStatus();
}

SqliteContextStore::~SqliteContextStore() { Close().IgnoreError(); }

absl::Status SqliteContextStore::CheckOpen() const {
  if (closing_) return absl::FailedPreconditionError("the context store is closed");
  return absl::OkStatus();
}

absl::StatusOr<PutOutcome> SqliteContextStore::Compare(const ContextRecord& record) {
  absl::StatusOr<ContextRecord> existing = table_->Find(record.tenant, record.name);
  if (absl::IsNotFound(existing.status())) return PutOutcome::kCreated;
  RETURN_IF_ERROR(existing.status());
  if (existing->digest != record.digest) {
    return absl::AlreadyExistsError(
        absl::StrCat("the name ", QuoteName(record.name), " is taken by other content"));
  }
  if (existing->model != record.model) {
    return absl::AlreadyExistsError(absl::StrCat("the name ", QuoteName(record.name),
                                                 " is taken by the same content with the model ",
                                                 QuoteName(existing->model)));
  }
  return PutOutcome::kUnchanged;
}

absl::StatusOr<PutOutcome> SqliteContextStore::Put(const ContextRecord& record,
                                                   absl::string_view dataset) {
  RETURN_IF_ERROR(ValidatePut(record, dataset));
  const std::string key = DatasetKey(record.tenant, record.digest);
  std::unique_ptr<Pin> pin;
  PutOutcome before = PutOutcome::kCreated;
  {
    MutexLock lock(&mutex_);
    RETURN_IF_ERROR(CheckOpen());
    absl::StatusOr<PutOutcome> outcome = Compare(record);
    RETURN_IF_ERROR(outcome.status());
    before = *outcome;
    pin = std::make_unique<Pin>(*this, DatasetId{record.tenant, record.digest});
  }
  // kUnchanged promises that the dataset is there, so a damaged or missing file is repaired.
  const bool intact = before == PutOutcome::kUnchanged &&
                      files_->Read(key, record.dataset_bytes, record.digest).ok();
  if (!intact) {
    RETURN_IF_ERROR(files_->Write(key, dataset));
  }
  {
    // Another call may have put or deleted the name meanwhile.
    MutexLock lock(&mutex_);
    absl::StatusOr<PutOutcome> outcome = Compare(record);
    if (!outcome.ok() || *outcome == PutOutcome::kUnchanged) return outcome;
    if (absl::Status s = table_->Insert(record); !s.ok()) {
      // A commit that failed in its fsync may yet turn out to have happened when the database is
      // next opened. Until then its file stays. A full disk is no such case.
      if (!absl::IsResourceExhausted(s)) doubtful_.insert(key);
      return s;
    }
    if (const int error = AtFailpoint("put_committed")) return FileError(error, "write", key);
    // A copy in `lost` would outlive the context's deletion. If this fails, the next Open tries.
    files_->ForgetLost(key).IgnoreError();
  }
  return PutOutcome::kCreated;
}

absl::StatusOr<ContextRecord> SqliteContextStore::Get(const std::string& tenant,
                                                      const std::string& name) {
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(CheckOpen());
  return table_->Find(tenant, name);
}

absl::StatusOr<std::string> SqliteContextStore::ReadDataset(const std::string& tenant,
                                                            const std::string& name) {
  std::unique_ptr<Pin> pin;
  ContextRecord record;
  {
    MutexLock lock(&mutex_);
    RETURN_IF_ERROR(CheckOpen());
    absl::StatusOr<ContextRecord> found = table_->Find(tenant, name);
    RETURN_IF_ERROR(found.status());
    record = *std::move(found);
    pin = std::make_unique<Pin>(*this, DatasetId{record.tenant, record.digest});
  }
  return files_->Read(DatasetKey(tenant, record.digest), record.dataset_bytes, record.digest);
}

absl::StatusOr<ContextPage> SqliteContextStore::List(const std::string& tenant, int64_t page_size,
                                                     const std::string& page_token) {
  if (page_size < 1 || page_size > kMaxPageSize) {
    return InvalidField("page_size", absl::StrCat("is ", page_size, "; it is 1 to ", kMaxPageSize));
  }
  absl::StatusOr<std::string> after = ReadPageToken(tenant, page_token);
  RETURN_IF_ERROR(after.status());

  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(CheckOpen());
  // One more record than requested shows whether there is another page.
  absl::StatusOr<std::vector<ContextRecord>> records = table_->List(tenant, *after, page_size + 1);
  RETURN_IF_ERROR(records.status());
  ContextPage page;
  page.records = *std::move(records);
  if (static_cast<int64_t>(page.records.size()) > page_size) {
    page.records.pop_back();
    page.next_page_token = MakePageToken(tenant, page.records.back().name);
  }
  return page;
}

absl::Status SqliteContextStore::Delete(const std::string& tenant, const std::string& name) {
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(CheckOpen());
  absl::StatusOr<ContextRecord> record = table_->Find(tenant, name);
  if (absl::IsNotFound(record.status())) return NoContext(name);
  // A record that cannot be read can still be deleted; Open finds its dataset later.
  RETURN_IF_ERROR(table_->Remove(tenant, name));
  if (const int error = AtFailpoint("delete_committed")) return FileError(error, "delete", name);
  if (record.ok()) RemoveUnneeded({tenant, record->digest});
  AtFailpoint("delete_done");
  return absl::OkStatus();
}

absl::Status SqliteContextStore::Close() {
  MutexLock lock(&mutex_);
  closing_ = true;
  while (!pins_.empty()) unpinned_.Wait(&mutex_);
  table_.reset();
  lock_.Reset();
  return absl::OkStatus();
}

void SqliteContextStore::AddPin(const DatasetId& id) { ++pins_[DatasetKey(id.tenant, id.digest)]; }

void SqliteContextStore::DropPin(const DatasetId& id) {
  MutexLock lock(&mutex_);
  const auto pin = pins_.find(DatasetKey(id.tenant, id.digest));
  if (--pin->second > 0) return;
  pins_.erase(pin);
  RemoveUnneeded(id);
  unpinned_.NotifyAll();
}

void SqliteContextStore::RemoveUnneeded(const DatasetId& id) {
  const std::string key = DatasetKey(id.tenant, id.digest);
  if (pins_.contains(key) || doubtful_.contains(key)) return;
  const absl::StatusOr<bool> named = table_->Names(id.tenant, id.digest);
  if (named.ok() && *named) return;
  const absl::Status removed = named.ok() ? files_->Remove(key) : named.status();
  if (!removed.ok()) {
    spdlog::warn("a dataset file that is no longer needed stays until the next start: {}",
                 removed.ToString());
  }
}

}  // namespace chorale
