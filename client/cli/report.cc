#include "client/cli/report.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/printable.h"
#include "client/cpp/csv.h"

namespace chorale::client {
namespace {

std::string HumanBytes(int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double size = static_cast<double>(bytes);
  size_t unit = 0;
  while (size >= 1024.0 && unit + 1 < std::size(kUnits)) {
    size /= 1024.0;
    ++unit;
  }
  return unit == 0 ? absl::StrCat(bytes, " B") : absl::StrFormat("%.1f %s", size, kUnits[unit]);
}

enum class Reader { kProgram, kPerson };

std::string Text(const Cell& cell, Reader reader) {
  if (const auto* text = std::get_if<std::string>(&cell)) return *text;
  if (const auto* number = std::get_if<int64_t>(&cell)) return absl::StrCat(*number);
  if (const auto* bytes = std::get_if<Bytes>(&cell)) {
    return reader == Reader::kPerson ? HumanBytes(bytes->count) : absl::StrCat(bytes->count);
  }
  if (const auto* number = std::get_if<double>(&cell)) {
    if (reader == Reader::kProgram) return FormatDouble(*number);
    return std::isnan(*number) ? "-" : absl::StrFormat("%.6g", *number);
  }
  return reader == Reader::kPerson ? "-" : "";
}

nlohmann::ordered_json Json(const Cell& cell) {
  if (const auto* text = std::get_if<std::string>(&cell)) return *text;
  if (const auto* number = std::get_if<int64_t>(&cell)) return *number;
  if (const auto* bytes = std::get_if<Bytes>(&cell)) return bytes->count;
  if (const auto* number = std::get_if<double>(&cell)) return *number;
  return nullptr;
}

bool IsNumber(const Cell& cell) {
  return !std::holds_alternative<std::string>(cell) &&
         !std::holds_alternative<std::monostate>(cell);
}

// Code points, not bytes, so that columns with non-ASCII names line up.
size_t Width(const std::string& text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
}

}  // namespace

ReportWriter::ReportWriter(std::vector<std::string> columns, Format format, std::ostream* out,
                           bool has_header)
    : columns_(std::move(columns)),
      format_(format),
      out_(out),
      right_aligned_(columns_.size(), false) {
  if (format_ == Format::kCsv && has_header) *out_ << CsvLine(columns_);
  if (format_ == Format::kJson) *out_ << "[";
  if (format_ == Format::kTable) table_.push_back(columns_);
}

void ReportWriter::Add(const std::vector<Cell>& cells) {
  if (format_ == Format::kJson) {
    AddJson(cells);
    return;
  }
  std::vector<std::string> texts;
  texts.reserve(cells.size());
  for (size_t i = 0; i < cells.size(); ++i) {
    texts.push_back(Text(cells[i], format_ == Format::kTable ? Reader::kPerson : Reader::kProgram));
    if (IsNumber(cells[i])) right_aligned_[i] = true;
  }
  if (format_ == Format::kCsv) {
    *out_ << CsvLine(texts);
  } else {
    for (std::string& text : texts) text = Printable(text);
    table_.push_back(std::move(texts));
  }
}

void ReportWriter::AddJson(const std::vector<Cell>& cells) {
  nlohmann::ordered_json object;
  for (size_t i = 0; i < cells.size(); ++i) object[columns_[i]] = Json(cells[i]);
  *out_ << (first_ ? "\n " : ",\n ") << object.dump();
  first_ = false;
}

void ReportWriter::Finish() {
  if (format_ == Format::kJson) *out_ << (first_ ? "]\n" : "\n]\n");
  if (format_ == Format::kTable) WriteTable();
}

void ReportWriter::WriteTable() {
  std::vector<size_t> widths(columns_.size(), 0);
  for (const auto& row : table_) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], Width(row[i]));
  }
  for (const auto& row : table_) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - Width(row[i]), ' ');
      absl::StrAppend(&line, i == 0 ? "" : "  ", right_aligned_[i] ? padding : "", row[i],
                      right_aligned_[i] ? "" : padding);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    *out_ << line << '\n';
  }
}

}  // namespace chorale::client
