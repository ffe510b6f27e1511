#pragma once

namespace isocost {

__extension__ using Wide = unsigned __int128;
__extension__ using SignedWide = __int128;

}  // namespace isocost
