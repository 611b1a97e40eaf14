"""impacket's SMB 2 server with four more FSCTLs, and with what copies need that it lacks: cutting files, statuses, telling of changes."""

from __future__ import annotations

import configparser
import errno
import logging
import os
import secrets
from pathlib import Path
from typing import Any

from impacket import smb3structs as smb2
from impacket.ntlm import compute_lmhash, compute_nthash
from impacket.smbserver import SMBSERVER

from odx_server.offload import ACCESS_DENIED, DISK_FULL, SUCCESS, Offload, Refused

REQUEST_RESUME_KEY, COPYCHUNK, COPYCHUNK_WRITE = 0x00140078, 0x001440F2, 0x001480F2
OFFLOAD_READ, OFFLOAD_WRITE = 0x00094264, 0x00098268
FILE_CLOSED = 0xC0000128
INVALID_DEVICE_REQUEST = 0xC0000010
FILE_OPENED = 1
#: What a disposition (supersede, create, overwrite, overwrite if) has done, where that is known.
ACTIONS = {0: 3, 2: 2, 4: 3, 5: 3}
STATUSES = {
    errno.ENOSPC: DISK_FULL,
    errno.EDQUOT: DISK_FULL,
    errno.EBADF: ACCESS_DENIED,
    errno.EACCES: ACCESS_DENIED,
    errno.EROFS: ACCESS_DENIED,
}


def make(
    port: int,
    shares: dict[str, Path],
    user: str,
    password: str,
    io_bytes: int = 1 << 20,
    prefetch_bytes: int = 0,
) -> tuple[SMBSERVER, Offload]:
    """A server on 127.0.0.1 that is not serving yet, and its tokens. Raises OSError if the port is taken."""
    config = configparser.ConfigParser(interpolation=None)
    common = {
        "server_name": "ODX",
        "server_os": "UNIX",
        "server_domain": "WORKGROUP",
        "log_file": "None",
        "credentials_file": "",
        "challenge": secrets.token_hex(8),
        "rpc_apis": "yes",
        "SMB2Support": "True",
        "anonymous_logon": "False",
    }
    config["global"] = common
    for name, path in {"IPC$": Path(), **shares}.items():
        kind = "3" if name == "IPC$" else "0"
        config[name.upper()] = {
            "comment": "",
            "read only": "no",
            "share type": kind,
            "path": str(path.resolve()),
        }
    # It tells each wrong request to the root logger.
    logging.getLogger("impacket").setLevel(logging.CRITICAL)
    server = SMBSERVER(("127.0.0.1", port), config_parser=config)
    server.daemon_threads = True
    server.processConfigFile()
    server.addCredential(user, 0, compute_lmhash(password).hex(), compute_nthash(password).hex())
    offload = Offload(io_bytes, prefetch_bytes)
    _extend(server, offload)
    return server, offload


def _extend(server: SMBSERVER, offload: Offload) -> None:
    def ioctl(code: int) -> Any:
        def answer(connection: str, smb_server: SMBSERVER, request: Any) -> tuple[Any, int]:
            opened = smb_server.getConnectionData(connection)["OpenedFiles"].get(request["FileID"].getData())
            if opened is None:
                return smb2.SMB2Error(), FILE_CLOSED
            descriptor, data = opened["FileHandle"], bytes(request["Buffer"])[: request["InputCount"]]
            if not isinstance(descriptor, int) or descriptor < 0:
                return smb2.SMB2Error(), INVALID_DEVICE_REQUEST
            output_bytes = request["MaxOutputResponse"]
            try:
                if code == REQUEST_RESUME_KEY:
                    if output_bytes < 32:
                        raise Refused(0xC000000D)
                    return offload.resume_key(connection, request["FileID"].getData(), descriptor), SUCCESS
                call = {OFFLOAD_READ: offload.read, OFFLOAD_WRITE: offload.write}.get(code, offload.copychunk)
                return call(connection, descriptor, data, output_bytes), SUCCESS
            except Refused as refused:
                if refused.data is None:
                    return smb2.SMB2Error(), refused.status
                return _full(code, request, refused.data), refused.status
            except OSError as error:
                return smb2.SMB2Error(), STATUSES.get(error.errno or 0, 0xC0000185)

        return answer

    for code in (REQUEST_RESUME_KEY, COPYCHUNK, COPYCHUNK_WRITE, OFFLOAD_READ, OFFLOAD_WRITE):
        server.getIoctls()[code] = ioctl(code)
    _told(server, offload)


def _told(server: SMBSERVER, offload: Offload) -> None:
    """Wraps the commands after which a token may mean something else."""
    from impacket.smbserver import SMB2Commands

    def opened(connection: str, request: Any) -> Any:
        return server.getConnectionData(connection)["OpenedFiles"].get(request["FileID"].getData())

    def write(connection: str, smb_server: SMBSERVER, packet: Any) -> Any:
        file = opened(connection, smb2.SMB2Write(packet["Data"]))
        done = SMB2Commands.smb2Write(connection, smb_server, packet)
        if file:
            offload.changed(file["FileHandle"])
        return done

    def set_info(connection: str, smb_server: SMBSERVER, packet: Any) -> Any:
        request = smb2.SMB2SetInfo(packet["Data"])
        file = opened(connection, request)
        is_end = request["InfoType"] == smb2.SMB2_0_INFO_FILE and request["FileInfoClass"] in (20, 19)
        if file is None or not is_end:
            return SMB2Commands.smb2SetInfo(connection, smb_server, packet)
        # impacket writes a byte at the end, which neither cuts a file nor leaves it as it was.
        size = int.from_bytes(bytes(request["Buffer"])[:8], "little")
        try:
            if request["FileInfoClass"] == 20:
                os.ftruncate(file["FileHandle"], size)
            offload.changed(file["FileHandle"])
        except OSError as error:
            return [smb2.SMB2Error()], None, STATUSES.get(error.errno or 0, 0xC000000D)
        return [smb2.SMB2SetInfo_Response()], None, SUCCESS

    def create(connection: str, smb_server: SMBSERVER, packet: Any) -> Any:
        answers, more, status = SMB2Commands.smb2Create(connection, smb_server, packet)
        if status == SUCCESS:
            # impacket hands the disposition back where the action belongs.
            disposition = smb2.SMB2Create(packet["Data"])["CreateDisposition"]
            answers[0]["CreateAction"] = ACTIONS.get(disposition, FILE_OPENED)
        return answers, more, status

    def close(connection: str, smb_server: SMBSERVER, packet: Any) -> Any:
        offload.closed(connection, smb2.SMB2Close(packet["Data"])["FileID"].getData())
        return SMB2Commands.smb2Close(connection, smb_server, packet)

    for command, handler in (
        (smb2.SMB2_WRITE, write),
        (smb2.SMB2_SET_INFO, set_info),
        (smb2.SMB2_CREATE, create),
        (smb2.SMB2_CLOSE, close),
    ):
        server.hookSmb2Command(command, handler)
    removed = server.removeConnection

    def remove(connection: str) -> None:
        offload.forget(connection)
        removed(connection)

    server.removeConnection = remove


def _full(code: int, request: Any, data: bytes) -> Any:
    """An IOCTL response with output beside an error (MS-SMB2 3.3.5.15.6)."""
    response = smb2.SMB2Ioctl_Response()
    for field in ("CtlCode", "FileID"):
        response[field] = request[field]
    response["CtlCode"] = code
    for field in ("InputOffset", "InputCount", "Flags"):
        response[field] = 0
    response["OutputOffset"], response["OutputCount"], response["Buffer"] = 0x70, len(data), data
    return response
