// Reads YAML files with a single document.
#ifndef CHORALE_SERVER_CONFIG_YAML_DOCUMENT_H_
#define CHORALE_SERVER_CONFIG_YAML_DOCUMENT_H_

#include <string>

#include "absl/status/statusor.h"
#include "yaml-cpp/yaml.h"

namespace chorale {

// Returns the document; a null node if the text is empty. InvalidArgument: several documents, or an
// incomplete document. Throws the exceptions of yaml-cpp for text that is not YAML.
//
// YAML::LoadAll never returns for some texts, such as a comma, because it finds another document
// there again and again.
absl::StatusOr<YAML::Node> LoadYamlDocument(const std::string& text);

}  // namespace chorale

#endif  // CHORALE_SERVER_CONFIG_YAML_DOCUMENT_H_
