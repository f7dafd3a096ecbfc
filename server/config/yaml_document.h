// Reads YAML files that are one document.
#ifndef CHORALE_SERVER_CONFIG_YAML_DOCUMENT_H_
#define CHORALE_SERVER_CONFIG_YAML_DOCUMENT_H_

#include <string>

#include "absl/status/statusor.h"
#include "yaml-cpp/yaml.h"

namespace chorale {

// The document; a null node if the text is empty. InvalidArgument: several documents, or text that
// ends as none. Throws what yaml-cpp throws for text that is not YAML.
//
// YAML::LoadAll never returns for some texts, such as a comma: it finds another document there
// again and again.
absl::StatusOr<YAML::Node> LoadYamlDocument(const std::string& text);

}  // namespace chorale

#endif  // CHORALE_SERVER_CONFIG_YAML_DOCUMENT_H_
