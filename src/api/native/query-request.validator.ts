// @ts-nocheck
// Generated from the schema beside it by scripts/validators.mjs; change that, not this.
"use strict";
export const validate = validate10;
export default validate10;
const schema11 = {"$schema":"http://json-schema.org/draft-07/schema#","$comment":"The body of POST /v1/query. Bounds that are options of the server are checked after it.","type":"object","required":["sql"],"additionalProperties":false,"properties":{"sql":{"type":"string"},"params":{"type":["array","object"]},"session":{"type":"object","if":{"type":"object","required":["id"]},"then":{"additionalProperties":false,"properties":{"id":{"type":"string"}}},"else":{"additionalProperties":false,"properties":{"database":{"type":"string"},"max_idle_time":{"type":"integer","minimum":0,"maximum":2147483647}}}},"pagination":{"type":"object","additionalProperties":false,"properties":{"wait_time_secs":{"type":"integer","minimum":-2147483648,"maximum":2147483647},"max_rows_per_page":{"type":"integer","minimum":1,"maximum":2147483647},"max_rows_in_buffer":{"type":"integer","minimum":1,"maximum":2147483647}}},"integers":{"enum":["number","string"]},"timeout_secs":{"type":"integer","minimum":1,"maximum":2147483},"result":{"type":"object","required":["keep_secs"],"additionalProperties":false,"properties":{"keep_secs":{"type":"integer","minimum":1,"maximum":2147483}}},"result_timeout_secs":{"type":"integer","minimum":1,"maximum":2147483}}};

function validate10(data, {instancePath="", parentData, parentDataProperty, rootData=data}={}){
let vErrors = null;
let errors = 0;
if(errors === 0){
if(data && typeof data == "object" && !Array.isArray(data)){
let missing0;
if((data.sql === undefined) && (missing0 = "sql")){
validate10.errors = [{instancePath,schemaPath:"#/required",keyword:"required",params:{missingProperty: missing0},message:"must have required property '"+missing0+"'"}];
return false;
}
else {
const _errs2 = errors;
for(const key0 in data){
if(!((((((((key0 === "sql") || (key0 === "params")) || (key0 === "session")) || (key0 === "pagination")) || (key0 === "integers")) || (key0 === "timeout_secs")) || (key0 === "result")) || (key0 === "result_timeout_secs"))){
validate10.errors = [{instancePath,schemaPath:"#/additionalProperties",keyword:"additionalProperties",params:{additionalProperty: key0},message:"must NOT have additional properties"}];
return false;
break;
}
}
if(_errs2 === errors){
if(data.sql !== undefined){
const _errs3 = errors;
if(typeof data.sql !== "string"){
validate10.errors = [{instancePath:instancePath+"/sql",schemaPath:"#/properties/sql/type",keyword:"type",params:{type: "string"},message:"must be string"}];
return false;
}
var valid0 = _errs3 === errors;
}
else {
var valid0 = true;
}
if(valid0){
if(data.params !== undefined){
let data1 = data.params;
const _errs5 = errors;
if(!data1 || typeof data1 != "object"){
validate10.errors = [{instancePath:instancePath+"/params",schemaPath:"#/properties/params/type",keyword:"type",params:{type: schema11.properties.params.type},message:"must be array,object"}];
return false;
}
var valid0 = _errs5 === errors;
}
else {
var valid0 = true;
}
if(valid0){
if(data.session !== undefined){
let data2 = data.session;
const _errs7 = errors;
if(!(data2 && typeof data2 == "object" && !Array.isArray(data2))){
validate10.errors = [{instancePath:instancePath+"/session",schemaPath:"#/properties/session/type",keyword:"type",params:{type: "object"},message:"must be object"}];
return false;
}
const _errs9 = errors;
let valid1 = true;
const _errs10 = errors;
if(errors === _errs10){
if(data2 && typeof data2 == "object" && !Array.isArray(data2)){
let missing1;
if((data2.id === undefined) && (missing1 = "id")){
const err0 = {};
if(vErrors === null){
vErrors = [err0];
}
else {
vErrors.push(err0);
}
errors++;
}
}
else {
const err1 = {};
if(vErrors === null){
vErrors = [err1];
}
else {
vErrors.push(err1);
}
errors++;
}
}
var _valid0 = _errs10 === errors;
errors = _errs9;
if(vErrors !== null){
if(_errs9){
vErrors.length = _errs9;
}
else {
vErrors = null;
}
}
let ifClause0;
if(_valid0){
const _errs12 = errors;
if(data2 && typeof data2 == "object" && !Array.isArray(data2)){
const _errs13 = errors;
for(const key1 in data2){
if(!(key1 === "id")){
validate10.errors = [{instancePath:instancePath+"/session",schemaPath:"#/properties/session/then/additionalProperties",keyword:"additionalProperties",params:{additionalProperty: key1},message:"must NOT have additional properties"}];
return false;
break;
}
}
if(_errs13 === errors){
if(data2.id !== undefined){
if(typeof data2.id !== "string"){
validate10.errors = [{instancePath:instancePath+"/session/id",schemaPath:"#/properties/session/then/properties/id/type",keyword:"type",params:{type: "string"},message:"must be string"}];
return false;
}
}
}
}
var _valid0 = _errs12 === errors;
valid1 = _valid0;
ifClause0 = "then";
}
else {
const _errs16 = errors;
if(data2 && typeof data2 == "object" && !Array.isArray(data2)){
const _errs17 = errors;
for(const key2 in data2){
if(!((key2 === "database") || (key2 === "max_idle_time"))){
validate10.errors = [{instancePath:instancePath+"/session",schemaPath:"#/properties/session/else/additionalProperties",keyword:"additionalProperties",params:{additionalProperty: key2},message:"must NOT have additional properties"}];
return false;
break;
}
}
if(_errs17 === errors){
if(data2.database !== undefined){
const _errs18 = errors;
if(typeof data2.database !== "string"){
validate10.errors = [{instancePath:instancePath+"/session/database",schemaPath:"#/properties/session/else/properties/database/type",keyword:"type",params:{type: "string"},message:"must be string"}];
return false;
}
var valid3 = _errs18 === errors;
}
else {
var valid3 = true;
}
if(valid3){
if(data2.max_idle_time !== undefined){
let data5 = data2.max_idle_time;
const _errs20 = errors;
if(!(((typeof data5 == "number") && (!(data5 % 1) && !isNaN(data5))) && (isFinite(data5)))){
validate10.errors = [{instancePath:instancePath+"/session/max_idle_time",schemaPath:"#/properties/session/else/properties/max_idle_time/type",keyword:"type",params:{type: "integer"},message:"must be integer"}];
return false;
}
if(errors === _errs20){
if((typeof data5 == "number") && (isFinite(data5))){
if(data5 > 2147483647 || isNaN(data5)){
validate10.errors = [{instancePath:instancePath+"/session/max_idle_time",schemaPath:"#/properties/session/else/properties/max_idle_time/maximum",keyword:"maximum",params:{comparison: "<=", limit: 2147483647},message:"must be <= 2147483647"}];
return false;
}
else {
if(data5 < 0 || isNaN(data5)){
validate10.errors = [{instancePath:instancePath+"/session/max_idle_time",schemaPath:"#/properties/session/else/properties/max_idle_time/minimum",keyword:"minimum",params:{comparison: ">=", limit: 0},message:"must be >= 0"}];
return false;
}
}
}
}
var valid3 = _errs20 === errors;
}
else {
var valid3 = true;
}
}
}
}
var _valid0 = _errs16 === errors;
valid1 = _valid0;
ifClause0 = "else";
}
if(!valid1){
const err2 = {instancePath:instancePath+"/session",schemaPath:"#/properties/session/if",keyword:"if",params:{failingKeyword: ifClause0},message:"must match \""+ifClause0+"\" schema"};
if(vErrors === null){
vErrors = [err2];
}
else {
vErrors.push(err2);
}
errors++;
validate10.errors = vErrors;
return false;
}
var valid0 = _errs7 === errors;
}
else {
var valid0 = true;
}
if(valid0){
if(data.pagination !== undefined){
let data6 = data.pagination;
const _errs22 = errors;
if(errors === _errs22){
if(data6 && typeof data6 == "object" && !Array.isArray(data6)){
const _errs24 = errors;
for(const key3 in data6){
if(!(((key3 === "wait_time_secs") || (key3 === "max_rows_per_page")) || (key3 === "max_rows_in_buffer"))){
validate10.errors = [{instancePath:instancePath+"/pagination",schemaPath:"#/properties/pagination/additionalProperties",keyword:"additionalProperties",params:{additionalProperty: key3},message:"must NOT have additional properties"}];
return false;
break;
}
}
if(_errs24 === errors){
if(data6.wait_time_secs !== undefined){
let data7 = data6.wait_time_secs;
const _errs25 = errors;
if(!(((typeof data7 == "number") && (!(data7 % 1) && !isNaN(data7))) && (isFinite(data7)))){
validate10.errors = [{instancePath:instancePath+"/pagination/wait_time_secs",schemaPath:"#/properties/pagination/properties/wait_time_secs/type",keyword:"type",params:{type: "integer"},message:"must be integer"}];
return false;
}
if(errors === _errs25){
if((typeof data7 == "number") && (isFinite(data7))){
if(data7 > 2147483647 || isNaN(data7)){
validate10.errors = [{instancePath:instancePath+"/pagination/wait_time_secs",schemaPath:"#/properties/pagination/properties/wait_time_secs/maximum",keyword:"maximum",params:{comparison: "<=", limit: 2147483647},message:"must be <= 2147483647"}];
return false;
}
else {
if(data7 < -2147483648 || isNaN(data7)){
validate10.errors = [{instancePath:instancePath+"/pagination/wait_time_secs",schemaPath:"#/properties/pagination/properties/wait_time_secs/minimum",keyword:"minimum",params:{comparison: ">=", limit: -2147483648},message:"must be >= -2147483648"}];
return false;
}
}
}
}
var valid4 = _errs25 === errors;
}
else {
var valid4 = true;
}
if(valid4){
if(data6.max_rows_per_page !== undefined){
let data8 = data6.max_rows_per_page;
const _errs27 = errors;
if(!(((typeof data8 == "number") && (!(data8 % 1) && !isNaN(data8))) && (isFinite(data8)))){
validate10.errors = [{instancePath:instancePath+"/pagination/max_rows_per_page",schemaPath:"#/properties/pagination/properties/max_rows_per_page/type",keyword:"type",params:{type: "integer"},message:"must be integer"}];
return false;
}
if(errors === _errs27){
if((typeof data8 == "number") && (isFinite(data8))){
if(data8 > 2147483647 || isNaN(data8)){
validate10.errors = [{instancePath:instancePath+"/pagination/max_rows_per_page",schemaPath:"#/properties/pagination/properties/max_rows_per_page/maximum",keyword:"maximum",params:{comparison: "<=", limit: 2147483647},message:"must be <= 2147483647"}];
return false;
}
else {
if(data8 < 1 || isNaN(data8)){
validate10.errors = [{instancePath:instancePath+"/pagination/max_rows_per_page",schemaPath:"#/properties/pagination/properties/max_rows_per_page/minimum",keyword:"minimum",params:{comparison: ">=", limit: 1},message:"must be >= 1"}];
return false;
}
}
}
}
var valid4 = _errs27 === errors;
}
else {
var valid4 = true;
}
if(valid4){
if(data6.max_rows_in_buffer !== undefined){
let data9 = data6.max_rows_in_buffer;
const _errs29 = errors;
if(!(((typeof data9 == "number") && (!(data9 % 1) && !isNaN(data9))) && (isFinite(data9)))){
validate10.errors = [{instancePath:instancePath+"/pagination/max_rows_in_buffer",schemaPath:"#/properties/pagination/properties/max_rows_in_buffer/type",keyword:"type",params:{type: "integer"},message:"must be integer"}];
return false;
}
if(errors === _errs29){
if((typeof data9 == "number") && (isFinite(data9))){
if(data9 > 2147483647 || isNaN(data9)){
validate10.errors = [{instancePath:instancePath+"/pagination/max_rows_in_buffer",schemaPath:"#/properties/pagination/properties/max_rows_in_buffer/maximum",keyword:"maximum",params:{comparison: "<=", limit: 2147483647},message:"must be <= 2147483647"}];
return false;
}
else {
if(data9 < 1 || isNaN(data9)){
validate10.errors = [{instancePath:instancePath+"/pagination/max_rows_in_buffer",schemaPath:"#/properties/pagination/properties/max_rows_in_buffer/minimum",keyword:"minimum",params:{comparison: ">=", limit: 1},message:"must be >= 1"}];
return false;
}
}
}
}
var valid4 = _errs29 === errors;
}
else {
var valid4 = true;
}
}
}
}
}
else {
validate10.errors = [{instancePath:instancePath+"/pagination",schemaPath:"#/properties/pagination/type",keyword:"type",params:{type: "object"},message:"must be object"}];
return false;
}
}
var valid0 = _errs22 === errors;
}
else {
var valid0 = true;
}
if(valid0){
if(data.integers !== undefined){
let data10 = data.integers;
const _errs31 = errors;
if(!((data10 === "number") || (data10 === "string"))){
validate10.errors = [{instancePath:instancePath+"/integers",schemaPath:"#/properties/integers/enum",keyword:"enum",params:{allowedValues: schema11.properties.integers.enum},message:"must be equal to one of the allowed values"}];
return false;
}
var valid0 = _errs31 === errors;
}
else {
var valid0 = true;
}
if(valid0){
if(data.timeout_secs !== undefined){
let data11 = data.timeout_secs;
const _errs32 = errors;
if(!(((typeof data11 == "number") && (!(data11 % 1) && !isNaN(data11))) && (isFinite(data11)))){
validate10.errors = [{instancePath:instancePath+"/timeout_secs",schemaPath:"#/properties/timeout_secs/type",keyword:"type",params:{type: "integer"},message:"must be integer"}];
return false;
}
if(errors === _errs32){
if((typeof data11 == "number") && (isFinite(data11))){
if(data11 > 2147483 || isNaN(data11)){
validate10.errors = [{instancePath:instancePath+"/timeout_secs",schemaPath:"#/properties/timeout_secs/maximum",keyword:"maximum",params:{comparison: "<=", limit: 2147483},message:"must be <= 2147483"}];
return false;
}
else {
if(data11 < 1 || isNaN(data11)){
validate10.errors = [{instancePath:instancePath+"/timeout_secs",schemaPath:"#/properties/timeout_secs/minimum",keyword:"minimum",params:{comparison: ">=", limit: 1},message:"must be >= 1"}];
return false;
}
}
}
}
var valid0 = _errs32 === errors;
}
else {
var valid0 = true;
}
if(valid0){
if(data.result !== undefined){
let data12 = data.result;
const _errs34 = errors;
if(errors === _errs34){
if(data12 && typeof data12 == "object" && !Array.isArray(data12)){
let missing2;
if((data12.keep_secs === undefined) && (missing2 = "keep_secs")){
validate10.errors = [{instancePath:instancePath+"/result",schemaPath:"#/properties/result/required",keyword:"required",params:{missingProperty: missing2},message:"must have required property '"+missing2+"'"}];
return false;
}
else {
const _errs36 = errors;
for(const key4 in data12){
if(!(key4 === "keep_secs")){
validate10.errors = [{instancePath:instancePath+"/result",schemaPath:"#/properties/result/additionalProperties",keyword:"additionalProperties",params:{additionalProperty: key4},message:"must NOT have additional properties"}];
return false;
break;
}
}
if(_errs36 === errors){
if(data12.keep_secs !== undefined){
let data13 = data12.keep_secs;
const _errs37 = errors;
if(!(((typeof data13 == "number") && (!(data13 % 1) && !isNaN(data13))) && (isFinite(data13)))){
validate10.errors = [{instancePath:instancePath+"/result/keep_secs",schemaPath:"#/properties/result/properties/keep_secs/type",keyword:"type",params:{type: "integer"},message:"must be integer"}];
return false;
}
if(errors === _errs37){
if((typeof data13 == "number") && (isFinite(data13))){
if(data13 > 2147483 || isNaN(data13)){
validate10.errors = [{instancePath:instancePath+"/result/keep_secs",schemaPath:"#/properties/result/properties/keep_secs/maximum",keyword:"maximum",params:{comparison: "<=", limit: 2147483},message:"must be <= 2147483"}];
return false;
}
else {
if(data13 < 1 || isNaN(data13)){
validate10.errors = [{instancePath:instancePath+"/result/keep_secs",schemaPath:"#/properties/result/properties/keep_secs/minimum",keyword:"minimum",params:{comparison: ">=", limit: 1},message:"must be >= 1"}];
return false;
}
}
}
}
}
}
}
}
else {
validate10.errors = [{instancePath:instancePath+"/result",schemaPath:"#/properties/result/type",keyword:"type",params:{type: "object"},message:"must be object"}];
return false;
}
}
var valid0 = _errs34 === errors;
}
else {
var valid0 = true;
}
if(valid0){
if(data.result_timeout_secs !== undefined){
let data14 = data.result_timeout_secs;
const _errs39 = errors;
if(!(((typeof data14 == "number") && (!(data14 % 1) && !isNaN(data14))) && (isFinite(data14)))){
validate10.errors = [{instancePath:instancePath+"/result_timeout_secs",schemaPath:"#/properties/result_timeout_secs/type",keyword:"type",params:{type: "integer"},message:"must be integer"}];
return false;
}
if(errors === _errs39){
if((typeof data14 == "number") && (isFinite(data14))){
if(data14 > 2147483 || isNaN(data14)){
validate10.errors = [{instancePath:instancePath+"/result_timeout_secs",schemaPath:"#/properties/result_timeout_secs/maximum",keyword:"maximum",params:{comparison: "<=", limit: 2147483},message:"must be <= 2147483"}];
return false;
}
else {
if(data14 < 1 || isNaN(data14)){
validate10.errors = [{instancePath:instancePath+"/result_timeout_secs",schemaPath:"#/properties/result_timeout_secs/minimum",keyword:"minimum",params:{comparison: ">=", limit: 1},message:"must be >= 1"}];
return false;
}
}
}
}
var valid0 = _errs39 === errors;
}
else {
var valid0 = true;
}
}
}
}
}
}
}
}
}
}
}
else {
validate10.errors = [{instancePath,schemaPath:"#/type",keyword:"type",params:{type: "object"},message:"must be object"}];
return false;
}
}
validate10.errors = vErrors;
return errors === 0;
}
