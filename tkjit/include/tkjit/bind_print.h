// Converts objects to text, for classes with an operator<<.
#pragma once

#include <sstream>
#include <string>

namespace tkjit {
namespace bind {

template <class T>
auto printed(const T& object) -> decltype(void(std::declval<std::ostream&>() << object), std::string()) {
    std::ostringstream text;
    text << object;
    return text.str();
}

}  // namespace bind
}  // namespace tkjit
