#include "server/config/yaml_document.h"

#include <sstream>

#include "absl/status/status.h"
#include "yaml-cpp/eventhandler.h"

namespace chorale {
namespace {

// Hears a document and keeps nothing of it.
class DocumentSkipper final : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark& /*mark*/) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& /*mark*/, YAML::anchor_t /*anchor*/) override {}
  void OnAlias(const YAML::Mark& /*mark*/, YAML::anchor_t /*anchor*/) override {}
  void OnScalar(const YAML::Mark& /*mark*/, const std::string& /*tag*/, YAML::anchor_t /*anchor*/,
                const std::string& /*value*/) override {}
  void OnSequenceStart(const YAML::Mark& /*mark*/, const std::string& /*tag*/,
                       YAML::anchor_t /*anchor*/, YAML::EmitterStyle::value /*style*/) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark& /*mark*/, const std::string& /*tag*/, YAML::anchor_t /*anchor*/,
                  YAML::EmitterStyle::value /*style*/) override {}
  void OnMapEnd() override {}
};

}  // namespace

absl::StatusOr<YAML::Node> LoadYamlDocument(const std::string& text) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  DocumentSkipper skipper;
  for (int documents = 0; parser.HandleNextDocument(skipper);) {
    if (++documents > 1) return absl::InvalidArgumentError("must contain a single YAML document");
  }
  return YAML::Load(text);
}

}  // namespace chorale
