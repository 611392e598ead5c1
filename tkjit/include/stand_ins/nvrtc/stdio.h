// printf is known to NVRTC.
#pragma once
