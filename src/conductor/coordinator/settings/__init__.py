"""What definitions may use beside their data: secrets and the environment. In reading order:

- `secrets`: values that workers are given and nobody is shown; from the environment and from the API.
- `cipher`: how secrets are written into the file, if there is a key for it.
- `placeholders`: where an input names secrets, and how the values come in when a task is handed out.
- `masking`: how the values are taken out of the results of the coordinator's own tasks.
- `environment`: values that everybody may read.
"""
