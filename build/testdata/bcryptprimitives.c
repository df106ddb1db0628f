/* The one function of bcryptprimitives.dll that Go's runtime needs at start and
 * Wine 8 does not have. Tests put it into their Wine folder; it never ships. */
#include <windows.h>

BOOLEAN NTAPI SystemFunction036(PVOID buffer, ULONG length);

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE buffer, SIZE_T length)
{
	return SystemFunction036(buffer, (ULONG)length);
}
