# Writes the policy of Bellman for Claude Desktop to this machine. Deploy it as
# an Intune platform script, in the system context and in 64-bit PowerShell.
# Change the values below; leave one out and it is not managed.
$ErrorActionPreference = 'Stop'

$key = 'HKLM:\SOFTWARE\Policies\Bellman'
if (-not (Test-Path $key)) { New-Item -Path $key -Force | Out-Null }

Set-ItemProperty -Path $key -Name serverURL -Type String -Value 'https://bellman.example.com/mcp'
Set-ItemProperty -Path $key -Name allowedServerURLs -Type MultiString -Value @('https://bellman.example.com/mcp')
Set-ItemProperty -Path $key -Name uploadEnabled -Type DWord -Value 1
Set-ItemProperty -Path $key -Name uploadRoot -Type ExpandString -Value '%SystemDrive%\Bellman'
Set-ItemProperty -Path $key -Name credentialStore -Type String -Value 'keychain'
Set-ItemProperty -Path $key -Name logLevel -Type String -Value 'info'
