// NVRTC declares printf itself.
#pragma once
