"""What is installed only when it is asked for."""


def hint(missing: ModuleNotFoundError) -> str:
    return (
        f"the server is not installed ({missing.name} is missing). "
        "Install it with: pip install 'mcp-memory-bridge[server]'"
    )
