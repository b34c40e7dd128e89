"""What the conformance suite asks of a server for its scenarios, beside what the product has.

The suite's own descriptions of its scenarios say what each of these must do.
"""

import asyncio
import base64
import json
from functools import partial
from typing import Annotated, Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.prompts.base import UserMessage
from mcp.shared.exceptions import MCPError
from mcp_types import (
    AudioContent,
    ClientCapabilities,
    Completion,
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    EmbeddedResource,
    ImageContent,
    InputRequiredResult,
    ListRootsRequest,
    SamplingMessage,
    TextContent,
    TextResourceContents,
    Tool,
)
from pydantic import Field

PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5E"
    "rkJggg=="
)
WAV = base64.b64encode(
    b"RIFF\x26\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00\x80\x3e\x00\x00"
    b"\x02\x00\x10\x00data\x02\x00\x00\x00\x00\x00"
).decode()
STEP = 0.05
MISSING_CAPABILITY = -32021

PURPOSE = "For the conformance suite."
JSON_SCHEMA_TOOL = Tool(
    name="json_schema_2020_12_tool",
    description=PURPOSE,
    input_schema={
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            }
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    },
)
"""Written out, since no signature of a function gives such a schema."""

fixtures = MCPServer("conformance fixtures")
tool = partial(fixtures.tool, description=PURPOSE)


@fixtures.completion()
async def complete(_reference: Any, _argument: Any, _context: Any) -> Completion:
    return Completion(values=["paris"], total=1, has_more=False)


def text_of(uri: str, text: str, mime_type: str = "text/plain") -> EmbeddedResource:
    contents = TextResourceContents(uri=uri, mime_type=mime_type, text=text)
    return EmbeddedResource(resource=contents)


def elicit(message: str, **properties: Any) -> ElicitRequest:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def sample(prompt: str, most_tokens: int = 100) -> CreateMessageRequest:
    message = SamplingMessage(role="user", content=TextContent(text=prompt))
    return CreateMessageRequest(
        params=CreateMessageRequestParams(messages=[message], max_tokens=most_tokens)
    )


STRING = {"type": "string"}


@tool()
def test_simple_text() -> str:
    return "This is a simple text response for testing."


@tool(structured_output=False)
def test_image_content() -> ImageContent:
    return ImageContent(data=PNG, mime_type="image/png")


@tool(structured_output=False)
def test_audio_content() -> AudioContent:
    return AudioContent(data=WAV, mime_type="audio/wav")


@tool(structured_output=False)
def test_embedded_resource() -> EmbeddedResource:
    return text_of("test://embedded-resource", "This is an embedded resource content.")


@tool(structured_output=False)
def test_multiple_content_types() -> list[Any]:
    return [
        TextContent(text="Multiple content types test:"),
        ImageContent(data=PNG, mime_type="image/png"),
        text_of("test://mixed-content-resource", '{"test":"data","value":123}', "application/json"),
    ]


@tool()
async def test_tool_with_logging(context: Context) -> str:
    for step in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await context.info(step)
        await asyncio.sleep(STEP)
    return "done"


@tool()
async def test_logging_tool(context: Context) -> str:
    await context.info("for who asked for it")
    return "done"


@tool()
async def test_tool_with_progress(context: Context) -> str:
    for done in (0, 50, 100):
        await context.report_progress(done, 100)
        await asyncio.sleep(STEP)
    return "done"


@tool()
def test_error_handling() -> str:
    raise ToolError("This tool intentionally returns an error for testing")


@tool()
async def test_sampling(prompt: str, context: Context) -> str:
    request = sample(prompt).params
    answer = await context.session.create_message(request.messages, max_tokens=request.max_tokens)
    return f"LLM response: {answer.content.text}"


async def ask(context: Context, message: str, properties: dict[str, Any]) -> str:
    schema = {"type": "object", "properties": properties, "required": []}
    answer = await context.session.elicit_form(message, schema)
    return f"action={answer.action}, content={json.dumps(answer.content)}"


@tool()
async def test_elicitation(message: str, context: Context) -> str:
    return "User response: " + await ask(context, message, {"username": STRING, "email": STRING})


@tool()
async def test_elicitation_sep1034_defaults(context: Context) -> str:
    properties = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {
            "type": "string",
            "enum": ["active", "inactive", "pending"],
            "default": "active",
        },
        "verified": {"type": "boolean", "default": True},
    }
    return "Elicitation completed: " + await ask(context, "With defaults", properties)


@tool()
async def test_elicitation_sep1330_enums(context: Context) -> str:
    options = ["option1", "option2", "option3"]
    titled = [{"const": f"value{n}", "title": f"Option {n}"} for n in (1, 2, 3)]
    properties = {
        "untitledSingle": {"type": "string", "enum": options},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    return "Elicitation completed: " + await ask(context, "Enumerations", properties)


@tool()
async def test_reconnection(context: Context) -> str:
    await context.close_sse_stream()
    await asyncio.sleep(2 * STEP)
    return "Reconnection test completed"


@tool()
def test_missing_capability(context: Context) -> str:
    declared = context.client_capabilities or ClientCapabilities()
    if declared.sampling is None:
        data = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(MISSING_CAPABILITY, "This tool needs the capability sampling.", data)
    return "done"


Region = Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]


@tool()
def test_x_mcp_header(region: Region) -> str:
    return region


Answered = str | InputRequiredResult


def required(state: str | None = None, **requests: Any) -> InputRequiredResult:
    return InputRequiredResult(input_requests=requests, request_state=state)


@tool(structured_output=False)
def test_input_required_result_elicitation(context: Context) -> Answered:
    answer = (context.input_responses or {}).get("user_name")
    content = getattr(answer, "content", None) or {}
    if not isinstance(content.get("name"), str):
        return required(user_name=elicit("What is your name?", name=STRING))
    return f"Hello, {content['name']}!"


@tool(structured_output=False)
def test_streaming_elicitation(context: Context) -> Answered:
    return test_input_required_result_elicitation(context)


@tool(structured_output=False)
def test_input_required_result_sampling(context: Context) -> Answered:
    if not context.input_responses:
        return required(capital_question=sample("What is the capital of France?"))
    return str(context.input_responses["capital_question"].content)


@tool(structured_output=False)
def test_input_required_result_list_roots(context: Context) -> Answered:
    if not context.input_responses:
        return required(client_roots=ListRootsRequest())
    return str(context.input_responses["client_roots"].roots)


@tool(structured_output=False)
def test_input_required_result_request_state(context: Context) -> Answered:
    if context.request_state != "asked":
        return required("asked", confirm=elicit("Please confirm", ok={"type": "boolean"}))
    return "state-ok"


@tool(structured_output=False)
def test_input_required_result_tampered_state(context: Context) -> Answered:
    return test_input_required_result_request_state(context)


@tool(structured_output=False)
def test_input_required_result_multiple_inputs(context: Context) -> Answered:
    if context.request_state != "asked":
        return required(
            "asked",
            user_name=elicit("What is your name?", name=STRING),
            greeting=sample("Generate a greeting", 50),
            client_roots=ListRootsRequest(),
        )
    return "done"


@tool(structured_output=False)
def test_input_required_result_multi_round(context: Context) -> Answered:
    match context.request_state:
        case None:
            return required("1", step1=elicit("Step 1: What is your name?", name=STRING))
        case "1":
            return required("2", step2=elicit("Step 2: Your favorite color?", color=STRING))
        case _:
            return "done"


@tool(structured_output=False)
def test_input_required_result_capabilities(context: Context) -> Answered:
    declared = context.client_capabilities or ClientCapabilities()
    requests: dict[str, Any] = {}
    if declared.sampling is not None:
        requests["sampled"] = sample("Anything")
    if declared.elicitation is not None:
        requests["asked"] = elicit("Anything", name=STRING)
    return "done" if context.input_responses or not requests else required(**requests)


@fixtures.resource("test://static-text", mime_type="text/plain")
def static_text() -> str:
    return "This is the content of the static text resource."


@fixtures.resource("test://static-binary", mime_type="image/png")
def static_binary() -> bytes:
    return base64.b64decode(PNG)


@fixtures.resource("test://watched-resource", mime_type="text/plain")
def watched() -> str:
    return "Watched resource content"


@fixtures.resource("test://template/{id}/data", mime_type="application/json")
def template(id: str) -> str:  # noqa: A002  the suite's own name
    return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


@fixtures.prompt(description=PURPOSE)
def test_simple_prompt() -> str:
    return "This is a simple prompt for testing."


@fixtures.prompt(description=PURPOSE)
def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@fixtures.prompt(description=PURPOSE)
def test_prompt_with_embedded_resource(resourceUri: str) -> list[UserMessage]:  # noqa: N803  the suite's own name
    return [
        UserMessage(text_of(resourceUri, "Embedded resource content for testing.")),
        UserMessage("Please process the embedded resource above."),
    ]


@fixtures.prompt(description=PURPOSE)
def test_prompt_with_image() -> list[UserMessage]:
    return [
        UserMessage(ImageContent(data=PNG, mime_type="image/png")),
        UserMessage("Please analyze the image above."),
    ]


@fixtures.prompt(description=PURPOSE)
def test_input_required_result_prompt(context: Context) -> Answered:
    if not context.input_responses:
        return required(user_context=elicit("What context should the prompt use?", context=STRING))
    return str(context.input_responses["user_context"].content)
