#include "engine/store/sqlite_context_store.h"

#include <sys/statvfs.h>

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "base/names.h"
#include "base/status_macros.h"
#include "engine/data/dataset_codec.h"
#include "engine/store/page_token.h"
#include "spdlog/spdlog.h"

namespace chorale {

namespace {

constexpr int64_t kMaxPageSize = 1000;

// The minimum interval between two times at which the log is emptied after deletions.
constexpr absl::Duration kLogEmptyingPeriod = absl::Milliseconds(500);

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

}  // namespace

// Keeps a dataset's file from being removed while a call uses it.
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

SqliteContextStore::SqliteContextStore(const StorePaths& paths, Locks locks,
                                       std::unique_ptr<DiskRoom> room,
                                       std::unique_ptr<ContextTable> table,
                                       std::unique_ptr<DatasetFiles> files)
    : database_(paths.database),
      files_(std::move(files)),
      room_(std::move(room)),
      table_(std::move(table)),
      locks_(std::move(locks)),
      log_emptier_(
          std::make_unique<RateLimitedTask>(kLogEmptyingPeriod, [this] { return EmptyLog(); })) {
  for (std::string path : {database_, absl::StrCat(database_, "-wal"), paths.datasets}) {
    const std::optional<FileIdentity> identity = IdentityOf(path);
    if (identity.has_value()) watched_.push_back({std::move(path), *identity});
  }
}

SqliteContextStore::~SqliteContextStore() { Close().IgnoreError(); }

absl::Status SqliteContextStore::ClosedError() {
  return absl::FailedPreconditionError("the context store is closed");
}

absl::Status SqliteContextStore::ForCaller(const absl::Status& status) {
  if (!ExceededQuota(status).empty()) return status;
  if (absl::IsResourceExhausted(status)) return room_->Full(status);
  // From SQLite: locked by another process, or not writable.
  if (!absl::IsFailedPrecondition(status) || status == ClosedError()) return status;
  spdlog::error("the context store cannot be used: {}", status.ToString());
  return MakeError(ErrorReason::kStoreFailed,
                   "the server's context store is unavailable at the moment");
}

absl::StatusOr<PutOutcome> SqliteContextStore::Put(const ContextRecord& record,
                                                   absl::string_view dataset,
                                                   const StoreQuota& quota,
                                                   const std::optional<Replacement>& replacement) {
  RETURN_IF_ERROR(ValidatePut(record, dataset));
  RETURN_IF_ERROR(Health());
  absl::StatusOr<PutOutcome> outcome = StoreContext(record, dataset, {quota, replacement});
  if (!outcome.ok()) return ForCaller(outcome.status());
  RETURN_IF_ERROR(Health());
  return outcome;
}

absl::StatusOr<PutOutcome> SqliteContextStore::StoreContext(const ContextRecord& record,
                                                            absl::string_view dataset,
                                                            const Terms& terms) {
  const std::string key = DatasetKey(record.tenant, record.digest);
  std::unique_ptr<Pin> pin;
  PutOutcome before = PutOutcome::kCreated;
  {
    MutexLock lock(&mutex_);
    ASSIGN_OR_RETURN(PutOutcome outcome, CompareWithinQuota(record, terms));
    before = outcome;
    pin = std::make_unique<Pin>(*this, DatasetId{record.tenant, record.digest});
  }
  // kUnchanged guarantees that the dataset exists, so a damaged or missing file is repaired.
  const bool intact = before == PutOutcome::kUnchanged &&
                      files_->Read(key, record.dataset_bytes, record.digest).ok();
  if (!intact) RETURN_IF_ERROR(WriteDataset(key, dataset));
  {
    // Another call may have registered or deleted the name in the meantime.
    MutexLock lock(&mutex_);
    absl::StatusOr<PutOutcome> outcome = CompareWithinQuota(record, terms);
    if (!outcome.ok() || *outcome == PutOutcome::kUnchanged) return outcome;
    if (absl::Status s = WriteRecord(record, *outcome); !s.ok()) {
      // A commit that failed in its fsync may prove to be durable when the database is next opened.
      // Until then its file is kept. A full disk does not have this effect.
      if (!absl::IsResourceExhausted(s)) doubtful_.insert(key);
      return s;
    }
    // A copy in `lost` would outlive the context's deletion. If this fails, the next Open tries
    // again.
    files_->ForgetLost(key).IgnoreError();
    return outcome;
  }
}

absl::Status SqliteContextStore::WriteDataset(const std::string& key, absl::string_view dataset) {
  while (true) {
    absl::Status status = room_->CheckRoom();
    if (status.ok()) status = files_->Write(key, dataset);
    const auto bytes = static_cast<int64_t>(dataset.size());
    if (!absl::IsResourceExhausted(status) || !FreeDiskOf(bytes)) return status;
  }
}

absl::Status SqliteContextStore::WriteRecord(const ContextRecord& record, PutOutcome outcome) {
  const auto write = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return outcome == PutOutcome::kReplaced ? ReplaceRecord(record) : table_->Insert(record);
  };
  absl::Status status = write();
  while (absl::IsResourceExhausted(status) && FreeDiskOf(/*bytes=*/1)) {  // one file at a time
    status = write();
  }
  return status;
}

bool SqliteContextStore::FreeDiskOf(int64_t bytes) const {
  return free_disk_ != nullptr && free_disk_(bytes);
}

absl::StatusOr<StoredContext> SqliteContextStore::ReadStored(const std::string& tenant,
                                                             const std::string& name) {
  RETURN_IF_ERROR(CheckOpen());
  absl::StatusOr<StoredContext> stored = table_->Read(tenant, name);
  if (!stored.ok()) return ForCaller(stored.status());
  return stored;
}

absl::StatusOr<ContextRecord> SqliteContextStore::Get(const std::string& tenant,
                                                      const std::string& name) {
  absl::StatusOr<StoredContext> stored;
  {
    MutexLock lock(&mutex_);
    stored = ReadStored(tenant, name);
  }
  RETURN_IF_ERROR(stored.status());
  return ParseContext(*std::move(stored), database_);
}

absl::StatusOr<std::string> SqliteContextStore::ReadDataset(const std::string& tenant,
                                                            const std::string& name) {
  std::unique_ptr<Pin> pin;
  absl::StatusOr<StoredContext> stored;
  {
    MutexLock lock(&mutex_);
    stored = ReadStored(tenant, name);
    RETURN_IF_ERROR(stored.status());
    pin = std::make_unique<Pin>(*this, DatasetId{tenant, stored->record.digest});
  }
  ASSIGN_OR_RETURN(ContextRecord record, ParseContext(*std::move(stored), database_));
  return files_->Read(DatasetKey(tenant, record.digest), record.dataset_bytes, record.digest);
}

absl::StatusOr<ContextPage> SqliteContextStore::List(const std::string& tenant,
                                                     const ContextQuery& query, PageLimits limits,
                                                     const std::string& page_token) {
  if (limits.contexts < 1 || limits.contexts > kMaxPageSize) {
    return InvalidField("page_size",
                        absl::StrCat("is ", limits.contexts, "; must be from 1 to ", kMaxPageSize));
  }
  const std::string list = IdentityOfList(query);
  ASSIGN_OR_RETURN(std::optional<ListPosition> after, ReadPageToken(tenant, list, page_token));

  ContextTable::Page stored;
  {
    MutexLock lock(&mutex_);
    RETURN_IF_ERROR(CheckOpen());
    absl::StatusOr<ContextTable::Page> found = table_->List(tenant, query, after, limits);
    if (!found.ok()) return ForCaller(found.status());
    stored = *std::move(found);
  }
  ContextPage page;
  for (StoredContext& context : stored.contexts) {
    if (query.with_columns) {
      ASSIGN_OR_RETURN(ContextRecord record, ParseContext(std::move(context), database_));
      page.records.push_back(std::move(record));
      continue;
    }
    absl::StatusOr<ContextRecord> record = ParseSummary(std::move(context.summary));
    if (!record.ok()) {
      return DamagedContext(database_, context.record.name, record.status());
    }
    page.records.push_back(*std::move(record));
  }
  if (stored.next.has_value()) page.next_page_token = MakePageToken(tenant, list, *stored.next);
  return page;
}

absl::StatusOr<StoreTotals> SqliteContextStore::Totals() {
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(CheckOpen());
  absl::StatusOr<StoreTotals> totals = table_->Totals();
  if (!totals.ok()) return ForCaller(totals.status());
  struct statvfs disk = {};
  if (fstatvfs(locks_.file.get(), &disk) == 0) {
    totals->disk_free_bytes = static_cast<int64_t>(disk.f_bavail * disk.f_frsize);
  }
  // Check a full disk again, so that free space is detected without a registration.
  totals->disk_full = !room_->CheckRoom().ok();
  return totals;
}

absl::StatusOr<std::vector<ContextSummary>> SqliteContextStore::ListNewest(int64_t limit) {
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(CheckOpen());
  absl::StatusOr<std::vector<ContextSummary>> contexts = table_->ListNewest(limit);
  if (!contexts.ok()) return ForCaller(contexts.status());
  return contexts;
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
    spdlog::warn(
        "the server could not remove an unused dataset file, which stays until the next start: {}",
        removed.ToString());
  }
}

}  // namespace chorale
